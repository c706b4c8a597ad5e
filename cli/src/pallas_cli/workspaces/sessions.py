"""Sessions of browsers at the console."""

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import Columns, print_answer, print_rows
from pallas_cli.paging import WHOLE, Page


def show_sessions(api: AdminApi, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print all sessions, the one that was used last first."""
    columns: Columns = {
        "session": lambda row: row["id"],
        "begun": lambda row: row["begun_at"],
        "used": lambda row: row["used_at"] or "-",
        "address": lambda row: row["address"] or "-",
        "browser": lambda row: row["browser"] or "-",
    }
    rows = page.cut(api.get("sessions")["sessions"], lambda row: row["id"])
    print_rows(rows, columns, nothing="There are no sessions.", as_json=as_json)


def delete_sessions(api: AdminApi, *, given: str | None, as_json: bool) -> None:
    """End one session, or all."""
    api.change("DELETE", "sessions", *([given] if given is not None else []))
    text = f"Session {given} has ended." if given is not None else "All sessions have ended."
    print_answer({"id": given, "deleted": True}, text, as_json=as_json)
