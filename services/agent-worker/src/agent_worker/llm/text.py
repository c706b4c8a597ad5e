"""A model's text as events: pieces are gathered, so that a fast model does not fill the log with single words."""

import time

from agent_worker.llm.scope import TurnScope
from pallas_contracts.turns import TextDelta

_LONGEST_WAIT = 0.2
_ENOUGH = 400


class TextStream:
    """Gathers the pieces of one answer until there are 400 characters or 0.2 s have passed."""

    def __init__(self, agent: str, scope: TurnScope) -> None:
        self._agent = agent
        self._scope = scope
        self._pieces: list[str] = []
        self._length = 0
        self._since = time.monotonic()

    def add(self, piece: str) -> None:
        """Add a piece, and say what has gathered if it is time."""
        if not piece:
            return
        if not self._pieces:
            self._since = time.monotonic()
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length >= _ENOUGH or time.monotonic() - self._since >= _LONGEST_WAIT:
            self.flush()

    def flush(self) -> None:
        """Say what has gathered."""
        if self._pieces:
            self._scope.say(TextDelta(agent=self._agent, text="".join(self._pieces)))
            self._pieces.clear()
            self._length = 0
