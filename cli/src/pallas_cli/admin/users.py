"""Users: who has opaque tokens, and whether those are let in."""

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import Columns, date, tell, tell_rows


def show_users(api: AdminApi, *, as_json: bool) -> None:
    """Print all users."""
    columns: Columns = {
        "user": lambda row: row["name"],
        "state": lambda row: "active" if row["active"] else "inactive",
        "since": lambda row: date(row["created_at"]),
    }
    tell_rows(api.rows("users"), columns, nothing="There are no users.", as_json=as_json)


def add_user(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Make a user."""
    user = api.make("POST", "users", body={"name": name})
    tell(user, f"Added user {name}." if user["new"] else f"User {name} was there already.", as_json=as_json)


def set_active(api: AdminApi, name: str, *, active: bool, as_json: bool) -> None:
    """Let a user's tokens in, or keep all of them out."""
    user = api.change("PATCH", "users", name, body={"active": active})
    so = "active: tokens of that user are let in" if active else "inactive: tokens of that user are refused"
    tell(user, f"User {name} is {so}.", as_json=as_json)


def show_scopes(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Print the libraries that may go into tokens of a user."""
    libraries: list[str] = api.get("users", name, "scopes")
    tell(libraries, "\n".join(libraries) or f"User {name} neither owns nor manages a library.", as_json=as_json)
