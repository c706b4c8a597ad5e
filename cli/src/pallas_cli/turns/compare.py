"""Compares two turns side by side: answers and timelines."""

import shutil
import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from pallas_bus.history.contents import content_of
from pallas_bus.history.timeline import timeline, times_of
from pallas_bus.history.turns import TurnHistory
from pallas_cli.turns.show import document_of
from pallas_cli.turns.timeline import lines_of

_NARROWEST = 50
"""Minimum columns of a side. In a narrower terminal one turn is printed above the other."""

_INDENT = " " * 21
_VERDICTS = {
    True: "The answers are equal.",
    False: "The answers differ.",
    None: "The answers cannot be compared: one of them is no longer stored.",
}


def comparison_of(old: TurnHistory, new: TurnHistory) -> dict[str, Any]:
    """Both turns as plain values; `equal` is None if one of the answers is no longer stored."""
    return {
        "equal": content_of(old).equals(content_of(new)),
        "old": document_of(old, content=True),
        "new": document_of(new, content=True),
    }


def lines_side_by_side(old: TurnHistory, new: TurnHistory, width: int | None = None) -> list[str]:
    """Both answers and timelines as text, side by side if they fit into `width` columns (default: the terminal's)."""
    side = ((width or shutil.get_terminal_size().columns) - 3) // 2
    pairs = list(zip(_parts(old), _parts(new), strict=True))
    lines: list[str] = []
    if side < _NARROWEST:
        for number, name in enumerate(("old", "new")):
            for part in (pair[number] for pair in pairs):
                lines += [f"{name}: {part[0]}", *part[1:], ""]
    else:
        for left, right in pairs:
            both = zip_longest(_wrapped(left, side), _wrapped(right, side), fillvalue="")
            lines += [f"{one:<{side}} | {other}".rstrip() for one, other in both]
            lines.append("")
    return [*lines, _VERDICTS[content_of(old).equals(content_of(new))]]


def _parts(turn: TurnHistory) -> tuple[list[str], list[str], list[str]]:
    """Heading, answer and timeline of a turn; each begins with its title."""
    times = times_of(timeline(turn))
    heading = f"{turn.turn_id} {turn.team}/{turn.agent}: {turn.state}"
    return [heading], ["answer", *content_of(turn).text.splitlines()], [f"timeline, {times}", *lines_of(turn)]


def _wrapped(lines: list[str], width: int) -> Iterator[str]:
    for line in lines:
        yield from textwrap.wrap(
            line,
            width,
            drop_whitespace=False,
            replace_whitespace=False,
            subsequent_indent=_INDENT if line[:1] == " " else "",
        ) or [""]
