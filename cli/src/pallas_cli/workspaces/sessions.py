"""Sessions of browsers at the console."""

from pallas_cli.admin.api import AdminApi
from pallas_cli.admin.output import Columns, print_answer, print_rows
from pallas_cli.paging import WHOLE, Page
from pallas_cli.plain_text import plain_line
from pallas_cli.refused import Refused


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


def show_session(api: AdminApi, *, given: str, as_json: bool) -> None:
    """Print one session.

    Raises:
        Refused: there is no such session.
    """
    for row in api.get("sessions")["sessions"]:
        if row["id"] == given:
            print_answer(row, "\n".join(plain_line(f"{name}: {row[name] or '-'}") for name in row), as_json=as_json)
            return
    raise Refused("there is no such session")


def delete_sessions(api: AdminApi, *, given: str | None, as_json: bool) -> None:
    """End one session, or all."""
    api.change("DELETE", "sessions", *([given] if given is not None else []))
    text = f"Session {given} has ended." if given is not None else "All sessions have ended."
    print_answer({"id": given, "deleted": True}, text, as_json=as_json)
