"""Faults of a program. The codes are those of the Constellation engine."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Code(StrEnum):
    """What kind of fault it is."""

    UNDEFINED_VARIABLE = "E001"
    UNDEFINED_FUNCTION = "E002"
    UNDEFINED_TYPE = "E003"
    UNDEFINED_NAMESPACE = "E004"
    AMBIGUOUS_FUNCTION = "E005"
    INVALID_PROJECTION = "E006"
    INVALID_FIELD_ACCESS = "E007"
    TYPE_MISMATCH = "E010"
    INCOMPATIBLE_MERGE = "E012"
    UNSUPPORTED_COMPARISON = "E013"
    UNSUPPORTED_ARITHMETIC = "E014"
    TYPE_ERROR = "E015"
    INVALID_OPTION = "E016"
    FALLBACK_MISMATCH = "E017"
    SYNTAX = "E020"
    CIRCULAR = "E031"


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a source, as offsets: from `start` up to `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and where it is."""

    code: Code
    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class Warned:
    """What is allowed, and probably not what was meant."""

    message: str
    span: Span


class Faulty(Exception):
    """The program cannot be used. `faults` are in the order in which they were found; there is at least one."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(faults[0].message)
        self.faults = faults


class Lines:
    """Turns offsets in a source into lines and columns, both from 1. Columns count characters."""

    def __init__(self, source: str) -> None:
        self._starts = [0, *(at + 1 for at, char in enumerate(source) if char == "\n")]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def diagnostics(source: str, faults: Iterable[Fault | Warned]) -> list[dict[str, Any]]:
    """Faults or warnings as JSON (RFC-018, tool `validate`): line and column from 1, code, message."""
    lines = Lines(source)
    found = list[dict[str, Any]]()
    for fault in faults:
        line, column = lines.position(fault.span.start)
        code = {"code": str(fault.code)} if isinstance(fault, Fault) else {}
        found.append({"line": line, "column": column, **code, "message": fault.message})
    return found
