"""Users, the owners of opaque tokens: active or inactive."""

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import Columns, date, print_answer, print_row, print_rows
from pallas_cli.paging import WHOLE, Page

_COLUMNS: Columns = {
    "user": lambda row: row["name"],
    "state": lambda row: "active" if row["active"] else "inactive",
    "since": lambda row: date(row["created_at"]),
}


def show_users(api: AdminApi, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print all users."""
    print_rows(api.rows("users", page=page), _COLUMNS, nothing="There are no users.", as_json=as_json)


def show_user(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Print one user."""
    print_row(api.row("users", "name", name, what="user"), _COLUMNS, as_json=as_json)


def create_user(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Create a user."""
    user = api.make("POST", "users", body={"name": name})
    print_answer(user, f"Created user {name}." if user["new"] else f"User {name} already exists.", as_json=as_json)


def set_active(api: AdminApi, name: str, *, active: bool, as_json: bool) -> None:
    """Activate or deactivate a user."""
    user = api.change("PATCH", "users", name, body={"active": active})
    state = "active: the user's tokens are accepted" if active else "inactive: all tokens of the user are refused"
    print_answer(user, f"User {name} is {state}.", as_json=as_json)


def show_scopes(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Print the libraries that a user's tokens may read."""
    libraries: list[str] = api.get("users", name, "scopes")
    print_answer(libraries, "\n".join(libraries) or f"User {name} neither owns nor manages a library.", as_json=as_json)
