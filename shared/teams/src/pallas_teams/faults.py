"""What is wrong with a team folder, and where.

A folder is read to its end and every fault is kept, so its author sees them all at once. A message never quotes a
value that may be secret; the place is enough to find it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pallas_contracts.errors import Rejected

type FieldPath = tuple[str | int, ...]
"""The keys and list positions that lead to a field."""

_SHOWABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FREE_FORM = {"headers", "env"}


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file; line and column count from 1, and line 0 stands for the file as a whole.

    `secret` says that it is in the secrets file, where even an unknown key may be a credential astray.
    """

    file: str
    line: int = 0
    column: int = 0
    secret: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong: `path` is the field, such as `agents.harper.port`, and empty for a whole file."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        place = str(Mark(self.file, self.line, self.column))
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class TeamFaults(Rejected):
    """The folder cannot be used; `faults` holds everything that is wrong with it, by file and line."""

    default_code = "bad_team"

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults))
        super().__init__("\n".join(str(fault) for fault in self.faults), faults=len(self.faults))


def _shown(path: FieldPath, known: frozenset[str] | None) -> str:
    """The path as text, such as `agents.harper.servers[0]`; with `known`, only those keys and servers' names are shown.

    It ends at headers and environments, whose keys are free and may be a misplaced credential; so may a key that is no
    plain word.
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
    """Collects faults. Of several about one field at one place the first is kept: the others follow from it.

    `fields` are all names of fields there are; of a place in the secrets file no other key is shown.
    """

    def __init__(self, fields: frozenset[str] = frozenset()) -> None:
        self._fields = fields
        self._faults: dict[tuple[Mark, str], Fault] = {}

    def add(self, mark: Mark, path: FieldPath, message: str) -> None:
        """Note a fault of the field at `path`; an empty path is the whole file."""
        shown = _shown(path, self._fields if mark.secret else None)
        fault = Fault(mark.file, mark.line, mark.column, shown, message)
        self._faults.setdefault((mark, fault.path), fault)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def __len__(self) -> int:
        return len(self._faults)
