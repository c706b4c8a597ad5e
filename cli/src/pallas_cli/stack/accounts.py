"""Passwords and keys of the auth services: from the environment, or generated once and stored in the data folder."""

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.stack.data import kept_secret


@dataclass(frozen=True, slots=True)
class Accounts:
    """The passwords and keys of the auth services."""

    admin_password: str = field(repr=False)
    service_password: str = field(repr=False)
    fernet_keys: str = field(repr=False)
    secret_key: str = field(repr=False)


def find_accounts(data: Path, environ: Mapping[str, str]) -> Accounts:
    """Read the passwords and keys, and generate those that are missing."""
    return Accounts(
        admin_password=environ.get("PALLAS_ADMIN_PASSWORD") or kept_secret(data, "admin-password"),
        service_password=kept_secret(data, "daedalus-service-password"),
        fernet_keys=environ.get("PALLAS_FERNET_KEYS") or kept_secret(data, "fernet-keys", _new_fernet_key),
        secret_key=environ.get("PALLAS_SECRET_KEY") or kept_secret(data, "secret-key"),
    )


def _new_fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
