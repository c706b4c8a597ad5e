"""Where a turn can stop without losing anything: between two steps, while none is under way."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class Boundary:
    """Of one attempt. After `stop`, no further step begins; `reached` is called once when those under way have ended.

    Whoever listens then cancels the attempt: a step that waits here never begins.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting = 0
        self._stopping = False
        self._reached: Callable[[], None] | None = None

    def stop(self, reached: Callable[[], None]) -> None:
        """Stop the attempt at its next boundary. One that has no further step ends as usual."""
        self._stopping, self._reached = True, reached
        self._check()

    @asynccontextmanager
    async def step(self, *, inner: bool = False) -> AsyncGenerator[None]:
        """Make a step inside the block. An inner step belongs to one that is under way, and does not wait."""
        if self._stopping and not inner:
            self._waiting += 1
            self._check()
            await asyncio.get_running_loop().create_future()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._check()

    def hold(self) -> None:
        """From here on there is no boundary: something has begun whose end is not known."""
        self._under_way += 1

    def _check(self) -> None:
        if self._waiting and not self._under_way and self._reached is not None:
            reached, self._reached = self._reached, None
            reached()
