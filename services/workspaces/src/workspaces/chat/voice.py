"""What an agent says before it has answered: status lines, and the text of its answer as it grows.

Both go to browsers at once, but not more often than `PAUSE_SECONDS` allows: then the last status line counts, and text
is joined. Nothing of it is needed later but the text of a reply that gets no answer: an answer is stored as a whole.
"""

import asyncio
from typing import Any

from pallas_contracts.message import utc_now
from pallas_mcp_calls.model import Progress, TextDelta
from workspaces.chat.clean import clean_text
from workspaces.chat.views import conversation_topic
from workspaces.live.hub import Hub

PAUSE_SECONDS = 0.04
MOST_TEXT = 256 * 1024
"""Characters that are shown while they arrive."""
LONGEST_LINE = 500
_PIECE = 1200
"""Characters of one event, so that it fits into a notification of Postgres whatever they are."""


class Voice:
    """What is said for one attempt at a reply. Run `run` in a task."""

    def __init__(self, hub: Hub, conversation_id: str, reply_id: str, attempt: int) -> None:
        self._hub = hub
        self._topic = conversation_topic(conversation_id)
        self._of = {"message_id": reply_id, "attempt": attempt}
        self.text = ""
        """What the agent has said of its answer so far."""
        self._told = 0
        self._restarts = 0
        self._progress: dict[str, Any] | None = None
        self._progress_told = True
        self._some = asyncio.Event()
        self.unsaved: dict[str, Any] | None = None
        """The last status line, until somebody takes it to be stored."""

    async def on_progress(self, progress: Progress) -> None:
        """A status line, which replaces the one before it."""
        message = clean_text(progress.message)[:LONGEST_LINE] if progress.message is not None else None
        self._progress = {
            "progress": progress.progress, "total": progress.total, "message": message, "at": utc_now().isoformat()
        }  # fmt: skip
        self.unsaved, self._progress_told = self._progress, False
        self._some.set()

    async def on_text(self, delta: TextDelta) -> None:
        """More of the answer."""
        if delta.restarted:
            self.text, self._told, self._restarts = "", 0, self._restarts + 1
        self.text = (self.text + clean_text(delta.text))[:MOST_TEXT]
        self._some.set()

    async def run(self) -> None:
        """Tell browsers, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            for kind, data in self._news():
                await self._hub.tell(self._topic, kind, data)
            await asyncio.sleep(PAUSE_SECONDS)

    def repeat(self) -> None:
        """Tell everything again soon, for browsers that begin to listen."""
        self._progress_told, self._told = self._progress is None, 0
        self._some.set()

    def so_far(self) -> list[tuple[str, dict[str, Any]]]:
        """What was said, as events."""
        progress = [("progress", {**self._of, **self._progress})] if self._progress else []
        return progress + self._pieces(0, self._told)

    def _news(self) -> list[tuple[str, dict[str, Any]]]:
        """What nobody was told yet."""
        news = list[tuple[str, dict[str, Any]]]()
        if self._progress and not self._progress_told:
            news.append(("progress", {**self._of, **self._progress}))
            self._progress_told = True
        news += self._pieces(self._told, len(self.text))
        self._told = len(self.text)
        return news

    def _pieces(self, begin: int, end: int) -> list[tuple[str, dict[str, Any]]]:
        offset = utf16_length(self.text[:begin])
        pieces = list[tuple[str, dict[str, Any]]]()
        for start in range(begin, end, _PIECE):
            text = self.text[start : min(start + _PIECE, end)]
            pieces.append(("text", {**self._of, "restarts": self._restarts, "offset": offset, "text": text}))
            offset += utf16_length(text)
        return pieces


def utf16_length(text: str) -> int:
    """The length of a text in JavaScript."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
