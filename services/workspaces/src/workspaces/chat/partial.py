"""What an agent says before it has answered: status lines, and the text of its answer as it grows.

Both go to browsers at once, but not more often than `PAUSE_SECONDS` allows: then the last status line counts, and text
is joined. Nothing of it is stored but the text of a reply that gets no answer. An agent that is called again under the
same key says all of it again.
"""

import asyncio
from typing import Any

from pallas_contracts.message import utc_now
from pallas_mcp_calls.model import Progress, TextDelta
from workspaces.chat.model import clean_text
from workspaces.chat.views import conversation_topic
from workspaces.live.hub import Hub

PAUSE_SECONDS = 0.04
MOST_TEXT = 256 * 1024
"""Characters that are shown while they arrive."""
LONGEST_LINE = 500
_PIECE = 1200
"""Characters of one event, so that it fits into a notification of Postgres whatever they are."""


class Partial:
    """What is said for one attempt at a reply. Run `publish` in a task."""

    def __init__(self, hub: Hub, conversation_id: str, reply_id: str, attempt: int) -> None:
        self._hub = hub
        self._topic = conversation_topic(conversation_id)
        self._of = {"message_id": reply_id, "attempt": attempt}
        self.text = ""
        """What the agent has said of its answer so far."""
        self._published = 0
        self._restarts = 0
        self._progress: dict[str, Any] | None = None
        self._progress_published = True
        self._some = asyncio.Event()

    async def on_progress(self, progress: Progress) -> None:
        """A status line, which replaces the one before it."""
        message = clean_text(progress.message)[:LONGEST_LINE] if progress.message is not None else None
        line = {"progress": progress.progress, "total": progress.total, "message": message}
        self._progress = {**self._of, **line, "at": utc_now().isoformat()}
        self._progress_published = False
        self._some.set()

    async def on_text(self, delta: TextDelta) -> None:
        """More of the answer."""
        if delta.restarted:
            self.text, self._published, self._restarts = "", 0, self._restarts + 1
        self.text = (self.text + clean_text(delta.text))[:MOST_TEXT]
        self._some.set()

    async def publish(self) -> None:
        """Tell the browsers of all replicas, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            progress = None if self._progress_published else self._progress
            begin, self._published, self._progress_published = self._published, len(self.text), True
            for kind, data in self._events(progress, begin, self._published):
                await self._hub.tell(self._topic, kind, data)
            await asyncio.sleep(PAUSE_SECONDS)

    def repeat(self) -> None:
        """Publish everything again soon, for browsers that begin to listen."""
        self._progress_published, self._published = self._progress is None, 0
        self._some.set()

    def published(self) -> list[tuple[str, dict[str, Any]]]:
        """What was published, as events."""
        return self._events(self._progress, 0, self._published)

    def _events(self, progress: dict[str, Any] | None, begin: int, end: int) -> list[tuple[str, dict[str, Any]]]:
        events = [("progress", progress)] if progress is not None else list[tuple[str, dict[str, Any]]]()
        offset = utf16_length(self.text[:begin])
        for start in range(begin, end, _PIECE):
            text = self.text[start : min(start + _PIECE, end)]
            events.append(("text", {**self._of, "restarts": self._restarts, "offset": offset, "text": text}))
            offset += utf16_length(text)
        return events


def utf16_length(text: str) -> int:
    """The length of a text in JavaScript."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
