"""What belongs to one call on a connection that many calls share.

The SDK passes the context of whoever calls on to the request's HTTP exchange, and from there to what the server sends
on it. So `current` names the call in all of these places.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from pallas_mcp_calls.model import CallFailed, OnQuestion, Progress

LARGEST_ANSWER = 16 * 1024 * 1024
"""Bytes of one message of a server."""


@dataclass(eq=False, slots=True)
class Exchange:
    """A call in progress, or the opening of a connection (`opening`), which no call shares.

    `fault` is what went wrong below MCP, `status` what HTTP said last. `largest` is the limit of a message in bytes.
    """

    on_progress: Callable[[Progress], None] | None = None
    on_question: OnQuestion | None = None
    opening: bool = False
    largest: int = LARGEST_ANSWER
    fault: CallFailed | None = None
    status: int | None = None
    session_lost: bool = False
    asked: int = 0
    _asking: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    @property
    def refused(self) -> bool:
        """Whether the server has refused the request, by an HTTP status that says that it has done nothing."""
        return self.status is not None and 400 <= self.status < 500

    async def waiting_for[R](self, reply: Coroutine[Any, Any, R], ended: R) -> R:
        """The reply to a question that came beside the call; `ended` if the call ends first."""
        task = asyncio.create_task(reply)
        self._asking.add(task)
        try:
            await asyncio.wait({task})
            return ended if task.cancelled() else task.result()
        finally:
            self._asking.discard(task)
            task.cancel()

    def end(self) -> None:
        """The call is over; nobody answers its questions any more."""
        for task in self._asking:
            task.cancel()


current: ContextVar[Exchange | None] = ContextVar("current", default=None)
"""The exchange in whose context this code runs."""
