"""Limits how often a log line of one kind is written: whoever can cause lines could fill a disk with them.

Lines are of one kind when logger, level, text, type of exception, and what they are about are the same. Those that are
left out are counted, and told in one line: at the end of the window if there is an event loop, else before the next
line of any kind, or when the process ends.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TextIO, override

WINDOW_SECONDS = 10.0
MOST_WARNINGS, MOST_OTHERS = 20, 2000
"""Lines of one kind in a window: of warnings and errors, and of those below, of which each turn causes some."""
MOST_KINDS = 1000
"""Kinds that are told apart in a window. All further ones of a level are one kind."""
_MARGIN = 0.1

type _Kind = tuple[object, ...]
type About = Callable[[logging.LogRecord], tuple[object, ...]]
"""What a line is about, besides its text."""


@dataclass(slots=True)
class _Window:
    """The lines of a kind in a window, which begins with the `first`."""

    first: logging.LogRecord
    count: int = 0


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, only so many of one kind."""

    def __init__(self, stream: TextIO, about: About) -> None:
        super().__init__(stream)
        self._about = about
        self._windows: dict[_Kind, _Window] = {}

    @override
    def emit(self, record: logging.LogRecord) -> None:
        for told in self._told(record.created - WINDOW_SECONDS):
            super().emit(told)
        kind: _Kind = (record.name, record.levelno, str(record.msg), record.exc_info and record.exc_info[0])
        kind += self._about(record)
        if kind not in self._windows and len(self._windows) >= MOST_KINDS:
            kind = (record.levelno,)
        window = self._windows.setdefault(kind, _Window(record))
        window.count += 1
        most = _most(record)
        if window.count <= most:
            super().emit(record)
        elif window.count == most + 1:
            with suppress(RuntimeError):  # a thread without a loop
                asyncio.get_running_loop().call_later(WINDOW_SECONDS + _MARGIN, self._tell)

    @override
    def close(self) -> None:
        self._tell(float("inf"))
        super().close()

    def _tell(self, before: float | None = None) -> None:
        with self.lock or nullcontext():
            for told in self._told(time.time() - WINDOW_SECONDS if before is None else before):
                super().emit(told)

    def _told(self, before: float) -> Generator[logging.LogRecord]:
        """End the windows that began before that time, oldest first. What they left out is a line each."""
        while self._windows:
            kind, window = next(iter(self._windows.items()))
            if window.first.created > before:
                return
            del self._windows[kind]
            first, more = window.first, window.count - _most(window.first)
            if more > 0:
                text = f"{more} more like this: {str(first.msg).strip()}"
                yield logging.LogRecord(first.name, first.levelno, first.pathname, first.lineno, text, None, None)


def _most(record: logging.LogRecord) -> int:
    return MOST_WARNINGS if record.levelno >= logging.WARNING else MOST_OTHERS
