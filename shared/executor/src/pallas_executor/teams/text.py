"""Emits a model's text as events. Pieces are buffered, so that a fast model does not fill the log with single words."""

import time
from collections.abc import Callable

from pallas_contracts.turns import TextDelta
from pallas_contracts.valid import valid_text

_MAX_DELAY = 0.2
_MAX_CHARACTERS = 400


class TextStream:
    """Buffers the pieces of one answer until there are 400 characters or 0.2 s have passed."""

    def __init__(self, agent: str, emit: Callable[[TextDelta], None]) -> None:
        self._agent = agent
        self._emit = emit
        self._pieces: list[str] = []
        self._length = 0
        self._since = time.monotonic()

    def add(self, piece: str) -> None:
        """Add a piece; emit the buffer when it is full or old enough."""
        if not piece:
            return
        if not self._pieces:
            self._since = time.monotonic()
        self._pieces.append(piece)
        self._length += len(piece)
        half = "\ud800" <= piece[-1] <= "\udbff"  # the other half of the character is in the next piece
        if not half and (self._length >= _MAX_CHARACTERS or time.monotonic() - self._since >= _MAX_DELAY):
            self.flush()

    def flush(self) -> None:
        """Emit the buffer."""
        if self._pieces:
            self._emit(TextDelta(agent=self._agent, text=valid_text("".join(self._pieces))))
            self._pieces.clear()
            self._length = 0
