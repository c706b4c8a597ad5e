"""The data folder of a stack: its lock, and the secrets in it.

The lock is an flock on an open file. The kernel releases it when its holder dies, so there is no stale lock.
"""

import base64
import fcntl
import os
import secrets
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.private_files import PRIVATE_FOLDER, kept
from pallas_cli.refused import Refused

SECRETS = "secrets"
"""The folder of secrets, private to its owner."""


@contextmanager
def locked(folder: Path) -> Generator[Path]:
    """Create the data folder unless it exists, and lock it for this process; yields its absolute path.

    Raises:
        Refused: another instance has locked it, or it cannot be written.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Refused(f"the data folder {folder} cannot be used: {error.strerror}") from error
    try:
        _take(handle, folder)
        yield folder
    finally:
        os.close(handle)


def _take(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = ""
        with suppress(OSError):
            holder = os.read(handle, 32).decode(errors="replace").strip()
        who = f" (pid {holder})" if holder else ""
        raise Refused(f"the data folder {folder} is in use by another instance{who}") from None
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def kept_secret(folder: Path, name: str, make: Callable[[], str] = lambda: secrets.token_hex(32)) -> str:
    """The secret of that name in the data folder, which is generated at the first start."""
    return kept(folder / SECRETS / name, make)


@dataclass(frozen=True, slots=True)
class Accounts:
    """The passwords and keys of the auth services."""

    admin_password: str = field(repr=False)
    service_password: str = field(repr=False)
    fernet_keys: str = field(repr=False)
    secret_key: str = field(repr=False)


def find_accounts(data: Path, environ: Mapping[str, str]) -> Accounts:
    """The passwords and keys of the environment or of the data folder, where those that are missing are generated."""
    return Accounts(
        admin_password=environ.get("PALLAS_ADMIN_PASSWORD") or kept_secret(data, "admin-password"),
        service_password=kept_secret(data, "daedalus-service-password"),
        fernet_keys=environ.get("PALLAS_FERNET_KEYS") or kept_secret(data, "fernet-keys", _new_fernet_key),
        secret_key=environ.get("PALLAS_SECRET_KEY") or kept_secret(data, "secret-key"),
    )


def _new_fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
