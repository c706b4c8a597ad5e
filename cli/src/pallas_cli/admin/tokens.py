"""Opaque tokens for the MCP clients of users, each with its own libraries."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import Columns, date, listed, print_answer, print_row, print_rows, print_secret
from pallas_cli.paging import WHOLE, Page

_COLUMNS: Columns = {
    "token": lambda row: row["id"],
    "user": lambda row: row["user_name"],
    "name": lambda row: row["name"],
    "libraries": lambda row: listed(row["allowed_libraries"]),
    "expires": lambda row: date(row["expires_at"]),
    "state": lambda row: _state(row),
}


def show_tokens(api: AdminApi, *, user: str | None, page: Page = WHOLE, as_json: bool) -> None:
    """Print all tokens, or those of a user, without their text: only a digest is stored."""
    print_rows(api.rows("tokens", page=page, user=user), _COLUMNS, nothing="No tokens found.", as_json=as_json)


def show_token(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Print one token, without its text."""
    print_row(api.row("tokens", "id", name, what="token"), _COLUMNS, as_json=as_json)


def create_token(
    api: AdminApi, name: str, *, user: str, libraries: Sequence[str], expires: datetime | None, as_json: bool
) -> None:
    """Create a token and print its text."""
    body = {
        "user": user,
        "name": name,
        "allowed_libraries": list(libraries),
        "expires_at": expires.isoformat() if expires is not None else None,
    }
    token = api.change("POST", "tokens", body=body)
    reads = f"can read {listed(token['allowed_libraries'])}" if libraries else "can read nothing yet"
    print_secret(token, token["token"], f"Token {token['id']} of user {user} {reads}.", as_json=as_json)


def replace_libraries(api: AdminApi, token_id: str, *, libraries: Sequence[str], as_json: bool) -> None:
    """Replace the libraries that a token can read."""
    token = api.change("PUT", "tokens", token_id, "libraries", body={"allowed_libraries": list(libraries)})
    reads = listed(token["allowed_libraries"]) if libraries else "nothing"
    print_answer(token, f"Token {token_id} can read {reads}.", as_json=as_json)


def delete_token(api: AdminApi, token_id: str, *, as_json: bool) -> None:
    """Revoke a token."""
    api.change("DELETE", "tokens", token_id)
    print_answer({"id": token_id, "revoked": True}, f"Token {token_id} is revoked.", as_json=as_json)


def _state(row: Row) -> str:
    if row["revoked_at"]:
        return "revoked"
    expires = row["expires_at"]
    return "expired" if expires and datetime.fromisoformat(expires) <= datetime.now(UTC) else "valid"
