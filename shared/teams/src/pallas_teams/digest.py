"""Notices when any file of a team folder has changed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

_SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv"}


def folder_digest(folder: Path) -> str:
    """A digest of the names and contents of all files below `folder`, to notice that something has changed.

    Reads every file and never fails: a file that goes away meanwhile counts as gone, a folder that is not there as
    empty. Left out: `__pycache__`, `.git`, `.venv` and the hidden folders that a mounted ConfigMap keeps its copies in
    (its files are links to those, and are read). The environment is not part of it.
    """
    digest = hashlib.sha256()
    for path in sorted(_files(folder)):
        name = path.relative_to(folder).as_posix()
        content = _content_digest(path)
        if content is not None:
            digest.update(f"{len(name)}:{name}:{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in folder.walk():
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("..")]
        yield from (parent / name for name in files if not name.endswith(".pyc"))


def _content_digest(path: Path) -> str | None:
    """The digest of the content; None when there is no such file any more, or no regular file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError:
        return "unreadable"
