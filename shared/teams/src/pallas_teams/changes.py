"""Finds the team folders that have changed since they were read."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from pallas_teams.digest import folder_digest


class FolderChanges:
    """Remembers the digest of each folder as it was read.

    A folder that changed while it was read counts as not read: the reader may have seen a part of the change.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._read: dict[Path, str] = {}

    def unread(self) -> list[Path]:
        """The folders that have changed since they were read, or were never read. Reads all their files."""
        return [folder for folder in self._folders if folder_digest(folder) != self._read.get(folder)]

    @contextmanager
    def reading(self, folder: Path) -> Generator[None]:
        """Record the folder as read, if it does not change while the block reads it."""
        before = folder_digest(folder)
        try:
            yield
        finally:
            if folder_digest(folder) == before:
                self._read[folder] = before
            else:
                self.forget(folder)

    def forget(self, folder: Path) -> None:
        """Count the folder as not read."""
        self._read.pop(folder, None)
