"""Checks the files that a team folder names: they must be inside the folder and readable."""

from pathlib import Path


def file_fault(folder: Path, name: str, *, text: bool = False) -> str | None:
    """Why `name` cannot be used as a file of the folder (`text`: a UTF-8 file); None if it can."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        return "must be inside the team's folder"
    if not path.is_file():
        return "no such file in the team's folder"
    try:
        content = path.read_bytes()
        if text:
            content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except OSError as error:
        return f"cannot be read: {error.strerror or type(error).__name__}"
    return None
