"""The faults of a team folder, with their places.

All faults of a folder are collected, so that its author sees them together. A message never quotes a value that may be
secret; the place is enough to find it.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pallas_contracts.errors import Rejected

type FieldPath = tuple[str | int, ...]
"""The keys and list positions that lead to a field."""

_SHOWABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FREE_FORM = {"headers", "env"}


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file. Line and column are counted from 1; line 0 means the whole file.

    `secret`: it is in the secrets file, where even an unknown key may be a misplaced credential.
    """

    file: str
    line: int = 0
    column: int = 0
    secret: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault. `path` is the field, such as `agents.harper.port`; empty means the whole file."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        place = str(Mark(self.file, self.line, self.column))
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class TeamFaults(Rejected):
    """The folder cannot be used; `faults` holds all its faults, by file and line."""

    default_code = "bad_team"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(str(fault) for fault in self.faults), faults=len(self.faults))


def _shown(path: FieldPath, known: frozenset[str] | None) -> str:
    """The path as text, such as `agents.harper.servers[0]`. With `known`, other keys are hidden, except servers' names.

    The path ends at headers and environments: their keys are free, so they may be a misplaced credential. A key that is
    not a plain word is always hidden.
    """
    text = ""
    for position, part in enumerate(path):
        in_servers = path[:2] == ("mcp", "servers")
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        allowed = known is None or part in known or (in_servers and position == 2)
        text += ("." if text else "") + (part if allowed and _SHOWABLE.fullmatch(part) else "…")
        if in_servers and position == 3 and part in _FREE_FORM:
            break
    return text


class FaultList:
    """Collects faults. Of several faults of one field at one place, only the first is kept.

    `fields` are the names of all fields; in the secrets file no other key is shown. Without `hides`, every key is
    shown: the file has no secrets.
    """

    def __init__(self, fields: frozenset[str] = frozenset(), *, hides: bool = True) -> None:
        self._fields = fields
        self._hides = hides
        self._faults: dict[tuple[Mark, str], Fault] = {}
        self.left_out: list[Fault] = []
        """Faults of parts that are left out; the others are used."""
        self.warnings: list[Fault] = []
        """What is used all the same."""

    def add(self, mark: Mark, path: FieldPath, message: str) -> None:
        """Add a fault of the field at `path`; an empty path means the whole file."""
        shown = _shown(path, self._fields if mark.secret else None) if self._hides else ".".join(map(str, path))
        fault = Fault(mark.file, mark.line, mark.column, shown, message)
        self._faults.setdefault((mark, fault.path), fault)

    def leave_out(self, mark: Mark, message: str) -> None:
        """Add why a program or a card is left out, while the rest of the folder is used."""
        self.left_out.append(Fault(mark.file, mark.line, mark.column, "", message))

    def leave_out_all(self, faults: "FaultList") -> None:
        """Add the faults of a part that is left out."""
        self.left_out += faults

    def warn(self, mark: Mark, message: str) -> None:
        """Add what is used all the same, and may be meant otherwise."""
        self.warnings.append(Fault(mark.file, mark.line, mark.column, "", message))

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def __len__(self) -> int:
        return len(self._faults)


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
