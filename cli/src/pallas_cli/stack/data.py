"""The folder a stack keeps everything in, and its lock.

The lock belongs to the open file, not to a file's existence: the kernel lets it go when the holder dies, so a stale
lock cannot exist.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pallas_cli.refused import Refused

SECRETS = "secrets"
"""What is in it is for its owner only."""


@contextmanager
def locked(folder: Path) -> Generator[Path]:
    """Make the data folder when it is missing and hold it for this process; yields its absolute path.

    Raises:
        Refused: another instance holds it, or it cannot be written.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
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
    """The secret of that name: made once, kept in the data folder for its owner only, the same at every start."""
    path = folder / SECRETS / name
    if not path.exists():
        keep_secret(path, make())
    return path.read_text(encoding="ascii")


def keep_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step: there is never a half of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)
    os.replace(fresh, path)
