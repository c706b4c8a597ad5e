"""Signing keys: Pallas signs team JWTs with one of them, Daedalus signs per-turn JWTs with others."""

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import Columns, date, print_answer, print_row, print_rows, print_secret
from pallas_cli.paging import WHOLE, Page

_COLUMNS: Columns = {
    "key": lambda row: row["kid"],
    "purpose": lambda row: row["purpose"],
    "algorithm": lambda row: row["algorithm"],
    "state": lambda row: _state(row),
    "since": lambda row: date(row["created_at"]),
}


def show_keys(api: AdminApi, *, page: Page = WHOLE, as_json: bool) -> None:
    """Print all keys, without their secrets."""
    print_rows(api.rows("keys", page=page), _COLUMNS, nothing="There are no keys.", as_json=as_json)


def show_key(api: AdminApi, name: str, *, as_json: bool) -> None:
    """Print one key, without its secret."""
    print_row(api.row("keys", "kid", name, what="key"), _COLUMNS, as_json=as_json)


def create_key(api: AdminApi, *, purpose: str, algorithm: str | None, current: bool, as_json: bool) -> None:
    """Create a key; print its secret if Daedalus signs with it."""
    body = {"purpose": purpose, "algorithm": algorithm, "current": current}
    key = api.change("POST", "keys", body=body)
    kid, secret = key["kid"], key["secret"]
    if secret is None:
        signs = "now signs team JWTs" if current else f"was created; `pallas keys make-current {kid}` makes it sign"
        print_answer(key, f"Key {kid} {signs}.", as_json=as_json)
    else:
        print_secret(key, secret, f"This is the secret of key {kid}, for Daedalus.", as_json=as_json)


def make_current(api: AdminApi, kid: str, *, as_json: bool) -> None:
    """Sign new team JWTs with this key."""
    print_answer(api.change("POST", "keys", kid, "current"), f"Key {kid} now signs team JWTs.", as_json=as_json)


def retire_key(api: AdminApi, kid: str, *, as_json: bool) -> None:
    """Make every JWT that a key signed invalid."""
    print_answer(
        api.change("POST", "keys", kid, "retire"),
        f"Key {kid} is retired: every JWT signed with it is now invalid.",
        as_json=as_json,
    )


def reseal_keys(api: AdminApi, *, as_json: bool) -> None:
    """Encrypt the secrets of all keys with the first Fernet key."""
    api.change("POST", "keys", "reseal")
    print_answer({"resealed": True}, "All keys are encrypted with the first of PALLAS_FERNET_KEYS.", as_json=as_json)


def _state(row: Row) -> str:
    if row["retired_at"]:
        return "retired"
    return "current" if row["current"] else "valid"
