"""Libraries: which there are, in which workspace, and who has which role on them."""

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import Columns, date, tell, tell_rows


def show_libraries(api: AdminApi, *, workspace: str | None, as_json: bool) -> None:
    """Print all libraries, or those of a workspace."""
    columns: Columns = {
        "library": lambda row: row["uid"],
        "name": lambda row: row["name"],
        "workspace": lambda row: row["workspace_id"] or "-",
        "since": lambda row: date(row["created_at"]),
    }
    rows = api.rows("libraries", workspace_id=workspace)
    tell_rows(rows, columns, nothing="There are no such libraries.", as_json=as_json)


def add_library(api: AdminApi, uid: str, *, name: str, workspace: str | None, owner: str | None, as_json: bool) -> None:
    """Make a library."""
    body = {"uid": uid, "name": name, "workspace_id": workspace, "owner": owner}
    library = api.make("POST", "libraries", body=body)
    tell(library, f"Added library {uid}." if library["new"] else f"Library {uid} was there already.", as_json=as_json)


def rename_library(api: AdminApi, uid: str, *, name: str, as_json: bool) -> None:
    """Give a library another name."""
    tell(
        api.change("PUT", "libraries", uid, "name", body={"name": name}),
        f"Library {uid} is called {name}.",
        as_json=as_json,
    )


def move_library(api: AdminApi, uid: str, *, workspace: str | None, as_json: bool) -> None:
    """Put a library into another workspace, or into none."""
    library = api.change("PUT", "libraries", uid, "workspace", body={"workspace_id": workspace})
    where = f"in workspace {workspace}" if workspace is not None else "in no workspace: no team reads it"
    tell(library, f"Library {uid} is {where}.", as_json=as_json)


def remove_library(api: AdminApi, uid: str, *, as_json: bool) -> None:
    """Remove a library."""
    api.change("DELETE", "libraries", uid)
    tell({"uid": uid, "removed": True}, f"Removed library {uid}.", as_json=as_json)


def show_members(api: AdminApi, *, library: str | None, user: str | None, as_json: bool) -> None:
    """Print who has which role, of all or of a library or a user."""
    columns: Columns = {
        "library": lambda row: row["library_uid"],
        "user": lambda row: row["user_name"],
        "role": lambda row: row["role"],
        "since": lambda row: date(row["created_at"]),
    }
    rows = api.rows("memberships", library=library, user=user)
    tell_rows(rows, columns, nothing="Nobody has a role there.", as_json=as_json)


def grant_role(api: AdminApi, library: str, user: str, role: str, *, as_json: bool) -> None:
    """Give a user a role on a library."""
    held = api.make("PUT", "memberships", library, user, role)
    tell(held, f"User {user} is {role} of library {library}.", as_json=as_json)


def revoke_role(api: AdminApi, library: str, user: str, role: str, *, as_json: bool) -> None:
    """Take a role from a user."""
    api.change("DELETE", "memberships", library, user, role)
    gone = {"library_uid": library, "user_name": user, "role": role, "revoked": True}
    tell(gone, f"User {user} is not {role} of library {library} any more.", as_json=as_json)
