"""Libraries: their workspaces and members."""

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import Columns, date, print_answer, print_row, print_rows
from pallas_cli.paging import WHOLE, Page

_COLUMNS: Columns = {
    "library": lambda row: row["uid"],
    "name": lambda row: row["name"],
    "workspace": lambda row: row["workspace_id"] or "-",
    "since": lambda row: date(row["created_at"]),
}


def show_libraries(api: AdminApi, *, workspace: str | None, page: Page = WHOLE, as_json: bool) -> None:
    """Print all libraries, or those of a workspace."""
    rows = api.rows("libraries", page=page, workspace_id=workspace)
    print_rows(rows, _COLUMNS, nothing="No libraries found.", as_json=as_json)


def show_library(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Print one library."""
    print_row(api.row("libraries", "uid", name, what="library"), _COLUMNS, as_json=as_json)


def create_library(
    api: AdminApi, uid: str, *, name: str, workspace: str | None, owner: str | None, as_json: bool
) -> None:
    """Create a library."""
    body = {"uid": uid, "name": name, "workspace_id": workspace, "owner": owner}
    library = api.make("POST", "libraries", body=body)
    print_answer(
        library, f"Created library {uid}." if library["new"] else f"Library {uid} already exists.", as_json=as_json
    )


def rename_library(api: AdminApi, uid: str, *, name: str, as_json: bool) -> None:
    """Change the display name of a library."""
    print_answer(
        api.change("PUT", "libraries", uid, "name", body={"name": name}),
        f"Renamed library {uid} to {name}.",
        as_json=as_json,
    )


def move_library(api: AdminApi, uid: str, *, workspace: str | None, as_json: bool) -> None:
    """Move a library to another workspace, or to none."""
    library = api.change("PUT", "libraries", uid, "workspace", body={"workspace_id": workspace})
    where = f"in workspace {workspace}" if workspace is not None else "in no workspace: no team can read it"
    print_answer(library, f"Library {uid} is now {where}.", as_json=as_json)


def delete_library(api: AdminApi, uid: str, *, as_json: bool) -> None:
    """Delete a library."""
    api.change("DELETE", "libraries", uid)
    print_answer({"uid": uid, "deleted": True}, f"Deleted library {uid}.", as_json=as_json)


def show_members(api: AdminApi, *, library: str | None, user: str | None, page: Page = WHOLE, as_json: bool) -> None:
    """Print users and their roles: all, or those of a library or user."""
    columns: Columns = {
        "library": lambda row: row["library_uid"],
        "user": lambda row: row["user_name"],
        "role": lambda row: row["role"],
        "since": lambda row: date(row["created_at"]),
    }
    rows = api.rows("memberships", page=page, library=library, user=user)
    print_rows(rows, columns, nothing="No members found.", as_json=as_json)


def grant_role(api: AdminApi, library: str, user: str, role: str, *, as_json: bool) -> None:
    """Give a user a role on a library."""
    held = api.make("PUT", "memberships", library, user, role)
    print_answer(held, f"User {user} is now {role} of library {library}.", as_json=as_json)


def revoke_role(api: AdminApi, library: str, user: str, role: str, *, as_json: bool) -> None:
    """Take a role from a user."""
    api.change("DELETE", "memberships", library, user, role)
    gone = {"library_uid": library, "user_name": user, "role": role, "revoked": True}
    print_answer(gone, f"User {user} is no longer {role} of library {library}.", as_json=as_json)
