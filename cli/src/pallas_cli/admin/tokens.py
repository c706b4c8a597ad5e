"""Opaque tokens: for MCP clients of people, each with libraries of its own."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import Columns, date, listed, tell, tell_once, tell_rows


def show_tokens(api: AdminApi, *, user: str | None, as_json: bool) -> None:
    """Print all tokens, or those of a user; never their text, which nobody has."""
    columns: Columns = {
        "token": lambda row: row["id"],
        "user": lambda row: row["user_name"],
        "name": lambda row: row["name"],
        "libraries": lambda row: listed(row["allowed_libraries"]),
        "expires": lambda row: date(row["expires_at"]),
        "state": _state,
    }
    tell_rows(api.rows("tokens", user=user), columns, nothing="There are no such tokens.", as_json=as_json)


def issue_token(
    api: AdminApi, name: str, *, user: str, libraries: Sequence[str], expires: datetime | None, as_json: bool
) -> None:
    """Make a token and print its text."""
    body = {
        "user": user,
        "name": name,
        "allowed_libraries": list(libraries),
        "expires_at": expires.isoformat() if expires is not None else None,
    }
    token = api.change("POST", "tokens", body=body)
    reads = f"reads {listed(token['allowed_libraries'])}" if libraries else "reads nothing yet"
    tell_once(token, token["token"], f"Token {token['id']} of user {user} {reads}.", as_json=as_json)


def replace_libraries(api: AdminApi, token_id: str, *, libraries: Sequence[str], as_json: bool) -> None:
    """Let a token read these libraries and no others."""
    token = api.change("PUT", "tokens", token_id, "libraries", body={"allowed_libraries": list(libraries)})
    reads = listed(token["allowed_libraries"]) if libraries else "nothing"
    tell(token, f"Token {token_id} reads {reads}.", as_json=as_json)


def revoke_token(api: AdminApi, token_id: str, *, as_json: bool) -> None:
    """Make a token invalid."""
    api.change("DELETE", "tokens", token_id)
    tell({"id": token_id, "revoked": True}, f"Token {token_id} is refused from now on.", as_json=as_json)


def _state(row: Row) -> str:
    if row["revoked_at"]:
        return "revoked"
    expires = row["expires_at"]
    return "expired" if expires and datetime.fromisoformat(expires) <= datetime.now(UTC) else "in force"
