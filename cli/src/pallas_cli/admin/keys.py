"""Signing keys: one signs the JWTs of teams here, others are Daedalus' and sign per-turn JWTs there."""

from pallas_cli.admin.api import AdminApi, Row
from pallas_cli.admin.output import Columns, date, tell, tell_once, tell_rows


def show_keys(api: AdminApi, *, as_json: bool) -> None:
    """Print all keys; never a secret."""
    columns: Columns = {
        "key": lambda row: row["kid"],
        "purpose": lambda row: row["purpose"],
        "algorithm": lambda row: row["algorithm"],
        "state": _state,
        "since": lambda row: date(row["created_at"]),
    }
    tell_rows(api.rows("keys"), columns, nothing="There are no keys.", as_json=as_json)


def add_key(api: AdminApi, *, purpose: str, algorithm: str | None, current: bool, as_json: bool) -> None:
    """Make a key; print its secret if it signs elsewhere."""
    body = {"purpose": purpose, "algorithm": algorithm, "current": current}
    key = api.change("POST", "keys", body=body)
    kid, secret = key["kid"], key["secret"]
    if secret is None:
        signs = "signs the JWTs of teams from now on" if current else f"signs after `pallas keys make-current {kid}`"
        tell(key, f"Key {kid} {signs}.", as_json=as_json)
    else:
        tell_once(key, secret, f"This is the secret of key {kid}, for Daedalus.", as_json=as_json)


def make_current(api: AdminApi, kid: str, *, as_json: bool) -> None:
    """Sign the JWTs of teams by a key from now on."""
    tell(api.change("POST", "keys", kid, "current"), f"Key {kid} signs the JWTs of teams from now on.", as_json=as_json)


def retire_key(api: AdminApi, kid: str, *, as_json: bool) -> None:
    """Make every JWT of a key invalid."""
    tell(api.change("POST", "keys", kid, "retire"), f"Every JWT of key {kid} is refused from now on.", as_json=as_json)


def reseal_keys(api: AdminApi, *, as_json: bool) -> None:
    """Encrypt all secrets by the first Fernet key."""
    api.change("POST", "keys", "reseal")
    tell({"resealed": True}, "All keys are encrypted by the first of PALLAS_FERNET_KEYS.", as_json=as_json)


def _state(row: Row) -> str:
    if row["retired_at"]:
        return "retired"
    return "current" if row["current"] else "valid"
