"""A digest of a team folder, which changes when a file in it does."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

_SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv"}


def folder_digest(folder: Path) -> str:
    """A digest of the names and contents of all files below `folder`, in hex. The environment is not part of it.

    It reads every file and never fails. A file that is removed meanwhile is left out; a missing folder counts as empty.
    `__pycache__`, `.git` and `.venv` are left out, and so are the hidden folders of a mounted ConfigMap, whose visible
    files are links into them.
    """
    digest = hashlib.sha256()
    for path in sorted(folder_files(folder)):
        name = path.relative_to(folder).as_posix()
        content = _content_digest(path)
        if content is not None:
            digest.update(f"{len(name)}:{name}:{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def folder_files(folder: Path) -> Iterator[Path]:
    """The files below `folder` that belong to the team, as `folder_digest` counts them."""
    for parent, folders, files in folder.walk():
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("..")]
        yield from (parent / name for name in files if not name.endswith(".pyc"))


def _content_digest(path: Path) -> str | None:
    """The digest of the content; None if the file was removed, or is not a regular file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError:
        return "unreadable"
