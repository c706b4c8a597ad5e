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

from pallas_cli.broker_config.store_key import MARK, require_same_key, require_text
from pallas_cli.private_files import PRIVATE_FOLDER, kept
from pallas_cli.refused import Refused, WrongUsage

SECRETS = "secrets"
"""The folder of secrets, private to its owner."""

_BROKER_KEY = "PALLAS_BROKER_KEY"


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


def broker_key(folder: Path) -> str:
    """The key with which the broker of a data folder encrypts its store: of `PALLAS_BROKER_KEY`, or kept in the folder.

    Raises:
        Refused: it is empty, or it is not the key that the store was made with.
    """
    from pallas_contracts.errors import Rejected
    from pallas_runtime.settings import value_of

    try:
        given = value_of(os.environ, _BROKER_KEY)
    except Rejected as error:
        raise WrongUsage(f"{_BROKER_KEY}: {error.message}") from error
    path, store = folder / SECRETS / "broker-key", folder / "nats" / "store"
    new = not store.is_dir() or not any(store.iterdir())
    if not given and not path.exists() and not new:
        raise Refused(
            f"the key of the broker's store is missing: put {path} back, or set {_BROKER_KEY} as before; "
            f"if it is gone, or the store was never encrypted, remove {store}"
        )
    named = _BROKER_KEY if given else str(path)
    key = require_text(given or kept_secret(folder, path.name), named)
    require_same_key(key, store.with_name(MARK), named, store=str(store), new=new)
    return key


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
