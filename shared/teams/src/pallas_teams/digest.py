"""A digest of a team folder, which changes when a file in it does."""

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path
from stat import S_ISREG

from pallas_teams.fast_agent.project import sources_in

SKIPPED_FOLDERS = {"__pycache__", ".git", ".venv"}
_LARGE = 1024 * 1024
"""Bytes. A larger file counts by its size and time, and is not read."""


def folder_digest(folder: Path, read: Collection[Path] | None = None) -> str:
    """A digest of the names and contents of the files below `folder`, in hex. The environment is not part of it.

    With `read`, only these files count, and those that a team may be declared in: what an agent's tools write into the
    folder is no change of the team. It never fails. A file that is removed meanwhile is left out; a missing folder
    counts as empty. `__pycache__`, `.git` and `.venv` are left out, and so are the hidden folders of a mounted
    ConfigMap, whose visible files are links into them.
    """
    digest = hashlib.sha256()
    files = folder_files(folder) if read is None else {*read, *sources_in(folder)}
    for path in sorted(files):
        name = path.relative_to(folder).as_posix()
        content = _content_digest(path)
        if content is not None:
            digest.update(f"{len(name)}:{name}:{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def folder_files(folder: Path) -> Iterator[Path]:
    """The files below `folder` that belong to the team, as `folder_digest` counts them."""
    for parent, folders, files in folder.walk():
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("..")]
        yield from (parent / name for name in files if not name.endswith(".pyc"))


def _content_digest(path: Path) -> str | None:
    """The digest of the content; None if the file was removed, or is not a regular file."""
    try:
        found = path.stat()
        if not S_ISREG(found.st_mode):
            return None
        if found.st_size > _LARGE:
            return f"{found.st_size} bytes at {found.st_mtime_ns}"
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
    except OSError:
        return "unreadable"
