"""Where a turn can stop without losing anything: between two steps, while none is under way."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar

_inside: ContextVar[bool] = ContextVar("inside a step", default=False)


class Boundary:
    """Of one attempt. After `stop`, no further step begins; `reached` is called once when those under way have ended.

    Whoever listens then cancels the attempt: a step that waits here never begins.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting = 0
        self._stopping = False
        self._held = asyncio.Event()
        self._reached: Callable[[], None] | None = None

    def stop(self, reached: Callable[[], None]) -> None:
        """Stop the attempt at its next boundary. One that has no further step ends as usual."""
        self._stopping, self._reached = True, reached
        self._check()

    @asynccontextmanager
    async def step(self) -> AsyncGenerator[None]:
        """Make a step inside the block. One inside another belongs to it, and does not wait."""
        if self._stopping and not _inside.get():
            await self._wait()
        self._under_way += 1
        outer = _inside.set(True)
        try:
            yield
        finally:
            _inside.reset(outer)
            self._under_way -= 1
            self._check()

    def hold(self) -> None:
        """From here on there is no boundary, and no step waits: something has begun whose end is not known."""
        self._held.set()

    async def _wait(self) -> None:
        self._waiting += 1
        try:
            self._check()
            await self._held.wait()
        finally:
            self._waiting -= 1

    def _check(self) -> None:
        free = not self._under_way and not self._held.is_set()
        if self._waiting and free and self._reached is not None:
            reached, self._reached = self._reached, None
            reached()
