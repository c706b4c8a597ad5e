"""Files that are there whole or not at all, and that only their owner can read unless another mode is wanted."""

import os
from collections.abc import Callable
from pathlib import Path

PRIVATE = 0o600


def write_whole(path: Path, content: str | bytes, mode: int = PRIVATE) -> None:
    """Write a file in one step, in place of the one that is there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
