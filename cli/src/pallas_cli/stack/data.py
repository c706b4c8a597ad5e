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

from pallas_cli.private_files import PRIVATE_FOLDER, kept
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
    """The secret of that name: made once, kept in the data folder for its owner only, the same at every start."""
    return kept(folder / SECRETS / name, make)
