"""What one reader has not read yet, with a bound."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

MOST_WAITING = 1_000
"""How many items may wait for one reader."""


class Backlog[T](AsyncIterator[T]):
    """Items in their order. A reader that is too slow gets the items `resync` instead of what waits."""

    def __init__(self, *resync: T) -> None:
        self._resync = resync
        self._waiting = deque[T]()
        self._some = asyncio.Event()
        self._closed = False

    def put(self, item: T) -> None:
        """Add an item."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(item)
            self._some.set()
        else:
            self.resync()

    def resync(self) -> None:
        """Tell the reader that it may have missed something."""
        self._waiting.clear()
        self._waiting.extend(self._resync)
        self._some.set()

    def close(self) -> None:
        """End, after what waits."""
        self._closed = True
        self._some.set()

    async def __anext__(self) -> T:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._some.clear()
            await self._some.wait()
        return self._waiting.popleft()
