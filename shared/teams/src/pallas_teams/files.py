"""Reads the files that a team folder names: they must be inside the folder, readable and not too large."""

import errno
import os
from pathlib import Path

LARGEST_FILE = 4 * 1024 * 1024


def read_file(path: Path) -> bytes:
    """The content of an instruction or of a module.

    Raises:
        OSError: it cannot be read, or is larger than `LARGEST_FILE`.
    """
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"larger than {LARGEST_FILE // 1024 // 1024} MiB")
    return content


def file_fault(folder: Path, name: str, *, text: bool = False, links: bool = False) -> str | None:
    """Why `name` cannot be used as a file of the folder (`text`: a UTF-8 file); None if it can.

    With `links`, a link in the folder may lead out of it.
    """
    place = os.path.abspath if links else os.path.realpath
    path = Path(place(folder / name))
    if not path.is_relative_to(place(folder)):
        return "must be inside the team's folder"
    if not path.is_file():
        return "no such file in the team's folder"
    try:
        content = read_file(path)
        if text:
            content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except OSError as error:
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return None
