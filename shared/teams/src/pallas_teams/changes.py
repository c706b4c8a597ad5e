"""Finds the team folders that have changed since they were read."""

import hashlib
import os
import sys
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from pallas_teams.fast_agent.project import sources_in


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
        self._read: dict[Path, tuple[dict[str, str], frozenset[Path]]] = {}
        self._files: dict[Path, set[Path]] = {}
        self._doubted, self._partial = set(self._folders), set[Path]()

    def unread(self) -> list[Path]:
        """The folders that have changed since they were read, or were never read. Reads the files that count."""
        return [folder for folder in self._folders if self._digest(folder) != self._read.get(folder)]

    def changed(self, folder: Path) -> list[str]:
        """The files of a folder that are others than when it was read."""
        known, now = self._read.get(folder), self._digest(folder)[0]
        before = known[0] if known is not None else {}
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))

    @contextmanager
    def reading(self, folder: Path) -> Generator[set[str]]:
        """Record the folder as read, if it does not change while the block reads it.

        The block may add the paths of files that another process has read for it.
        """
        before, opened = file_digests(folder), set[str]()
        self._doubted.discard(folder)
        self._partial.discard(folder)
        try:
            with _noting(opened):
                yield opened
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

    def files_read(self, folder: Path) -> frozenset[Path]:
        """The files of a folder that were read so far."""
        return frozenset(self._files.get(folder, ()))

    def doubt(self, folder: Path, *, partial: bool = False) -> None:
        """Count all files of a folder that is or was read: it does not work. `partial`: an agent of it does not."""
        (self._partial if partial else self._doubted).add(folder)
        if folder in self._read:
            self._read[folder] = self._digest(folder)

    def forget(self, folder: Path) -> None:
        """Count the folder as not read."""
        self._read.pop(folder, None)

    def _digest(self, folder: Path) -> tuple[dict[str, str], frozenset[Path]]:
        digest = file_digests(folder, None if folder in self._doubted else self._files.get(folder, ()))
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


SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv"}
_MOST_READ = 32 * 1024 * 1024
"""Bytes that are read of all files together. Changes of the others are seen by their size and time."""


def folder_digest(folder: Path, read: Collection[Path] | None = None) -> str:
    """A digest of the names and contents of the files below `folder`, in hex. The environment is not part of it.

    With `read`, only these files count, and those that a team may be declared in: what an agent's tools write into the
    folder is no change of the team. It reads no more than some MiB, and never fails. A file that is removed meanwhile
    is left out; a missing folder counts as empty. `__pycache__`, `.git` and `.venv` are left out, and so are the hidden
    folders of a mounted ConfigMap, whose visible files are links into them.
    """
    digest = hashlib.sha256()
    for name, content in file_digests(folder, read).items():
        digest.update(f"{len(name)}:{name}:{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def file_digests(folder: Path, read: Collection[Path] | None = None) -> dict[str, str]:
    """The same of each of these files, by its path below the folder."""
    found, left = dict[str, str](), _MOST_READ
    for path in sorted(folder_files(folder) if read is None else {*read, *sources_in(folder)}):
        content, size = _content_digest(path, left)
        left -= size
        if content is not None:
            found[path.relative_to(folder).as_posix()] = content
    return found


def folder_files(folder: Path) -> Iterator[Path]:
    """The files below `folder` that belong to the team, as `folder_digest` counts them."""
    for parent, folders, files in folder.walk():
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("..")]
        yield from (parent / name for name in files if not name.endswith(".pyc"))


def _content_digest(path: Path, most: int) -> tuple[str | None, int]:
    """The digest of the content, and how much was read; no digest if the file was removed, or is not a regular file."""
    try:
        if not path.is_file():
            return None, 0
        with path.open("rb") as file:
            known = os.fstat(file.fileno())
            if known.st_size > most:
                return f"{known.st_size} {known.st_mtime_ns}", 0
            return hashlib.sha256(file.read(known.st_size)).hexdigest(), known.st_size
    except FileNotFoundError:
        return None, 0
    except OSError:
        return "unreadable", 0
