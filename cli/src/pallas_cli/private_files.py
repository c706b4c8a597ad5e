"""Atomic writes of files, and private modes of files and folders."""

import os
from collections.abc import Callable
from pathlib import Path

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> None:
    """Create a folder unless it exists, and set its mode to 0700."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    path.chmod(PRIVATE_FOLDER)


def write_atomically(path: Path, content: str | bytes, mode: int = PRIVATE) -> None:
    """Write or replace a file atomically."""
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
    """The text of a file, which is created with the result of `make` unless it exists."""
    if not path.exists():
        write_atomically(path, make(), mode)
    return path.read_text("utf-8")
