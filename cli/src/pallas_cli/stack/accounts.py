"""Passwords and keys of the auth side: the user's own from the environment, else made once and kept."""

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.stack.data import kept_secret


@dataclass(frozen=True, slots=True)
class Accounts:
    """What the auth side is opened with."""

    admin_password: str = field(repr=False)
    service_password: str = field(repr=False)
    fernet_keys: str = field(repr=False)


def find_accounts(data: Path, environ: Mapping[str, str]) -> Accounts:
    """Read them, and make those that are missing."""
    return Accounts(
        admin_password=environ.get("PALLAS_ADMIN_PASSWORD") or kept_secret(data, "admin-password"),
        service_password=kept_secret(data, "daedalus-service-password"),
        fernet_keys=environ.get("PALLAS_FERNET_KEYS") or kept_secret(data, "fernet-keys", _new_fernet_key),
    )


def _new_fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
