"""A digest of a team folder, which changes when a file in it does."""

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from pallas_teams.fast_agent.project import sources_in

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
