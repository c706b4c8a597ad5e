"""Finds the team folders that have changed since they were read."""

import os
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from pallas_teams.digest import SKIPPED_FOLDERS, file_digests, folder_digest, folder_files


class FolderChanges:
    """Remembers the digest of each folder as it was read.

    What counts are the files that this process has opened while it read the folder, also to import them, and those that
    a team may be declared in. Tools of an agent may write any others. Where an agent cannot be started, a Python file
    that appears or goes counts, too: it may be the module that is missing. Where reading has failed, all files count:
    any may be the remedy. A folder that changed while it was read counts as not read: the reader may have seen a part
    of the change.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._read: dict[Path, tuple[str, frozenset[Path]]] = {}
        self._files: dict[Path, set[Path]] = {}
        self._doubted, self._partial = set(self._folders), set[Path]()

    def unread(self) -> list[Path]:
        """The folders that have changed since they were read, or were never read. Reads the files that count."""
        return [folder for folder in self._folders if self._digest(folder) != self._read.get(folder)]

    @contextmanager
    def reading(self, folder: Path) -> Generator[None]:
        """Record the folder as read, if it does not change while the block reads it."""
        before, opened = file_digests(folder), set[str]()
        self._doubted.discard(folder)
        self._partial.discard(folder)
        try:
            with _noting(opened):
                yield
        except BaseException:
            self._doubted.add(folder)
            raise
        finally:
            # A module that is imported already is not opened again.
            self._files.setdefault(folder, set()).update(_below(folder, opened))
            counted, after = file_digests(folder, self._files[folder]), file_digests(folder)
            files = {path.relative_to(folder).as_posix() for path in self._files[folder]}
            if all(before.get(name) == after.get(name) for name in files | counted.keys()):
                self._read[folder] = self._digest(folder)
            else:
                self.forget(folder)

    def doubt(self, folder: Path, *, partial: bool = False) -> None:
        """Count all files of a folder that is or was read: it does not work. `partial`: an agent of it does not."""
        (self._partial if partial else self._doubted).add(folder)
        if folder in self._read:
            self._read[folder] = self._digest(folder)

    def forget(self, folder: Path) -> None:
        """Count the folder as not read."""
        self._read.pop(folder, None)

    def _digest(self, folder: Path) -> tuple[str, frozenset[Path]]:
        digest = folder_digest(folder, None if folder in self._doubted else self._files.get(folder, ()))
        modules = (path for path in folder_files(folder) if path.suffix == ".py") if folder in self._partial else ()
        return digest, frozenset(modules)


_noted: list[set[str]] = []


@contextmanager
def _noting(opened: set[str]) -> Generator[None]:
    """Add the path of each file that this process opens for reading."""
    _listen()
    _noted.append(opened)
    try:
        yield
    finally:
        _noted.remove(opened)


@cache
def _listen() -> None:
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _noted or event != "open":
        return
    path, _, flags = arguments
    if isinstance(path, str) and not (flags or 0) & (os.O_WRONLY | os.O_RDWR):
        for opened in _noted:
            opened.add(os.path.abspath(path))


def _below(folder: Path, opened: Iterable[str]) -> set[Path]:
    """The files below a folder, by the folder's own name; a module instead of its bytecode."""
    roots = {os.path.abspath(folder), os.path.realpath(folder)}
    found = set[Path]()
    for path in opened:
        source = source_from_cache(path) if path.endswith(".pyc") and "__pycache__" in path else path
        for root in roots:
            if source.startswith(root + os.sep):
                file = folder / os.path.relpath(source, root)
                if not SKIPPED_FOLDERS & set(file.parts) and not source.endswith(".pyc"):
                    found.add(file)
    return found
