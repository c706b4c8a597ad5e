"""Files that are there whole or not at all, and that only their owner can read unless another mode is wanted, and
folders that only their owner can look into."""

import os
from collections.abc import Callable
from pathlib import Path

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> None:
    """Make a folder where it is missing, and take everybody else's rights to the one that is there."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.chmod(PRIVATE_FOLDER)


def write_whole(path: Path, content: str | bytes, mode: int = PRIVATE) -> None:
    """Write a file in one step, in place of the one that is there."""
    path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with os.fdopen(handle, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fchmod(handle, mode)
        os.fsync(handle)
    os.replace(fresh, path)


def kept(path: Path, make: Callable[[], str], mode: int = PRIVATE) -> str:
    """The text of a file that is made once and stays as it is."""
    if not path.exists():
        write_whole(path, make(), mode)
    return path.read_text("utf-8")
