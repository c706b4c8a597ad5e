"""Keeps apart the folders that are as they were read and those that are to be read again."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from pallas_teams.digest import folder_digest


class FolderChanges:
    """Which of these folders are not what was last read of them.

    What was read while somebody wrote counts as not read: it may be half of a change, or one that was taken back.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._read: dict[Path, str] = {}

    def unread(self) -> list[Path]:
        """The folders that have changed since they were read, or never were; reads every file of all of them."""
        return [folder for folder in self._folders if folder_digest(folder) != self._read.get(folder)]

    @contextmanager
    def reading(self, folder: Path) -> Generator[None]:
        """What the block reads of the folder is what it holds, if it does so from the beginning to the end of it."""
        before = folder_digest(folder)
        try:
            yield
        finally:
            if folder_digest(folder) == before:
                self._read[folder] = before
            else:
                self.forget(folder)

    def forget(self, folder: Path) -> None:
        """The folder is to be read again."""
        self._read.pop(folder, None)
