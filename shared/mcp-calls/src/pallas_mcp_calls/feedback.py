"""What an agent says while it works, given to its caller in order and one after the other.

A slow caller delays neither the agent nor other calls: pieces of text that wait are joined, and old progress is
dropped. What an agent sends is bounded by the size of an answer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pallas_mcp_calls.exchange import LARGEST_ANSWER
from pallas_mcp_calls.model import TEXT_PREFIX, TEXT_RESTARTED, OnProgress, OnText, Progress, TextDelta

log = logging.getLogger(__name__)

MOST_WAITING = 200
_LONGEST_MESSAGE = 4_000
_END_SECONDS = 2.0
"""How long an answer waits for a caller that is still busy with what came before it."""


class Feedback:
    """Takes progress notifications by `put`. `on_text` None: no text was asked for, so none is told apart."""

    def __init__(self, on_progress: OnProgress | None, on_text: OnText | None) -> None:
        self._on_progress = on_progress
        self._on_text = on_text
        self._waiting = deque[Progress | TextDelta]()
        self._some = asyncio.Event()
        self._ended = False
        self._room = LARGEST_ANSWER

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Give everything to the caller until the block ends, and then what still waits."""
        task = asyncio.create_task(self._run())
        try:
            yield
            self._ended = True
            self._some.set()
            await asyncio.wait({task}, timeout=_END_SECONDS)
        finally:
            task.cancel()

    def put(self, progress: Progress) -> None:
        """Take one notification."""
        message = progress.message
        if self._on_text is not None and message is not None:
            if message.startswith(TEXT_PREFIX):
                return self._put_text(message[len(TEXT_PREFIX) :])
            if message == TEXT_RESTARTED:
                self._room = LARGEST_ANSWER
                return self._add(TextDelta("", restarted=True))
        if self._on_progress is None:
            return None
        if message is not None and len(message) > _LONGEST_MESSAGE:
            progress = Progress(progress.progress, progress.total, f"{message[: _LONGEST_MESSAGE - 1]}…")
        return self._add(progress)

    def _put_text(self, text: str) -> None:
        self._room -= len(text)
        if self._room < 0:
            return
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, TextDelta):
            self._waiting[-1] = TextDelta(last.text + text, last.restarted)
        else:
            self._add(TextDelta(text))

    def _add(self, item: Progress | TextDelta) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._drop()
        self._waiting.append(item)
        self._some.set()

    def _drop(self) -> None:
        """Drop all progress that waits, and join the text."""
        text = [item for item in self._waiting if isinstance(item, TextDelta)]
        restarts = [index for index, item in enumerate(text) if item.restarted]
        kept = text[restarts[-1] :] if restarts else text
        self._waiting.clear()
        if kept:
            self._waiting.append(TextDelta("".join(item.text for item in kept), bool(restarts)))

    async def _run(self) -> None:
        while True:
            while self._waiting:
                await self._give(self._waiting.popleft())
            if self._ended:
                return
            self._some.clear()
            await self._some.wait()

    async def _give(self, item: Progress | TextDelta) -> None:
        try:
            if isinstance(item, Progress):
                if self._on_progress is not None:
                    await self._on_progress(item)
            elif self._on_text is not None:
                await self._on_text(item)
        except Exception:
            log.exception("what an agent says while it works cannot be passed on")
