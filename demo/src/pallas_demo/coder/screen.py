"""The screen of a terminal as AgentAPI reads it: lines as wide as the terminal, and what is new since a message."""

import re

import pyte

_ARROWS = ">\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_PROMPT = re.compile(rf"^\s*[│┃|]?\s*[{_ARROWS}]\s*[│┃|]?\s*$")
_RULE = re.compile(r"^\s*[╭╰─━╯╮]+\s*$")
_LAST_LINES = 6


class Screen:
    """A terminal's screen. Rows that did not change are not rendered again."""

    def __init__(self, columns: int, rows: int) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._screen.dirty.clear()
        self._rendered: dict[int, str] = {}

    def feed(self, data: bytes) -> None:
        """Show what the program wrote."""
        self._stream.feed(data)

    @property
    def takes_pastes(self) -> bool:
        """Whether the program asked for bracketed pastes."""
        return 2004 << 5 in self._screen.mode

    def lines(self) -> list[str]:
        """All lines down to the last that holds anything, each padded to the width."""
        screen = self._screen
        for row in screen.dirty:
            cells = screen.buffer.get(row)
            text = "".join(cells[column].data for column in range(screen.columns)) if cells else ""
            if text.strip():
                self._rendered[row] = text
            else:
                self._rendered.pop(row, None)
        screen.dirty.clear()
        blank = " " * screen.columns
        return [self._rendered.get(row, blank) for row in range(max(self._rendered, default=-1) + 1)]


def new_lines(before: list[str], now: list[str], typed: str) -> str:
    """What the program wrote since `typed` was typed: without that text, blank lines around, and its input prompt."""
    same = 0
    while same < min(len(before), len(now)) and before[same] == now[same]:
        same += 1
    fresh = now[same:]
    if not same and before:  # scrolled or drawn anew: the first line that was not there
        known = set(before)
        fresh = now[next((row for row, line in enumerate(now) if line not in known), len(now)) :]
    return "\n".join(_trimmed(_without_prompt(_without_typed(fresh, typed))))


def _without_typed(lines: list[str], typed: str) -> list[str]:
    """Drop the lines that repeat the text, however it was wrapped. Long text may be shown in part."""
    wanted = "".join(typed.split())
    seen = ""
    for row, line in enumerate(lines):
        seen += "".join(line.split())
        if wanted and seen.find(wanted) in range(4):
            return lines[row + 1 :]
        if len(seen) > len(wanted) + 4:
            break
    first = "".join(lines[0].split()).lstrip(_ARROWS) if lines else ""
    return lines[1:] if first and wanted.startswith(first.removesuffix("…")) else lines


def _without_prompt(lines: list[str]) -> list[str]:
    for row in range(len(lines) - 1, max(-1, len(lines) - 1 - _LAST_LINES), -1):
        if _PROMPT.match(lines[row]):
            return lines[: row - 1] if row and _RULE.match(lines[row - 1]) else lines[:row]
    return lines


def _trimmed(lines: list[str]) -> list[str]:
    used = [row for row, line in enumerate(lines) if line.strip()]
    return lines[used[0] : used[-1] + 1] if used else []
