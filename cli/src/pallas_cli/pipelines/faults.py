"""Faults of a program, each with its line of the source."""

from collections.abc import Iterable, Iterator
from typing import Any

from pallas_cli.pipelines.sources import Source
from pallas_cli.plain_text import plain

_WIDTH = 110
_BEFORE = 60
"""Of a long line, so many characters are shown, and so many of them before the fault."""


def fault_lines(source: Source, faults: Iterable[dict[str, Any]], kind: str = "") -> Iterator[str]:
    """Lines that tell faults or warnings (`line`, `column`, `code`, `message`), with a caret under their places.

    `kind` stands before each message.
    """
    lines = source.text.split("\n")
    for fault in faults:
        line, column = int(fault.get("line", 1)), int(fault.get("column", 1))
        words = (f"{kind}:" if kind else "", fault.get("code", ""), fault.get("message", ""))
        yield f"{source.name}:{line}:{column}: {' '.join(filter(None, words))}"
        if 1 <= line <= len(lines):
            yield from _marked(lines[line - 1].removesuffix("\r"), max(column - 1, 0))


def _marked(line: str, at: int) -> Iterator[str]:
    """The line, or the part of a long one around the place, and a caret under the place."""
    start = max(0, at - _BEFORE) if len(line) > _WIDTH else 0
    before = plain(line[start:at])
    yield f"  {before}{plain(line[at : start + _WIDTH])}"
    yield f"  {''.join('\t' if char == '\t' else ' ' for char in before)}^"
