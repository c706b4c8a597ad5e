"""Users, the owners of opaque tokens: active or inactive."""

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import Columns, date, print_answer, print_rows


def show_users(api: AdminApi, *, as_json: bool) -> None:
    """Print all users."""
    columns: Columns = {
        "user": lambda row: row["name"],
        "state": lambda row: "active" if row["active"] else "inactive",
        "since": lambda row: date(row["created_at"]),
    }
    print_rows(api.rows("users"), columns, nothing="There are no users.", as_json=as_json)


def add_user(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Add a user."""
    user = api.make("POST", "users", body={"name": name})
    print_answer(user, f"Added user {name}." if user["new"] else f"User {name} already exists.", as_json=as_json)


def set_active(api: AdminApi, name: str, *, active: bool, as_json: bool) -> None:
    """Activate or deactivate a user."""
    user = api.change("PATCH", "users", name, body={"active": active})
    state = "active: the user's tokens are accepted" if active else "inactive: all tokens of the user are refused"
    print_answer(user, f"User {name} is {state}.", as_json=as_json)


def show_scopes(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Print the libraries that a user's tokens may read."""
    libraries: list[str] = api.get("users", name, "scopes")
    print_answer(libraries, "\n".join(libraries) or f"User {name} neither owns nor manages a library.", as_json=as_json)
