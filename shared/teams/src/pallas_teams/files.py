"""Which files may be named in a team folder: those inside of it that can be read."""

from pathlib import Path


def file_fault(folder: Path, name: str, *, text: bool = False) -> str | None:
    """Say what keeps `name` from being used as a file of the folder; None when it can be."""
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
