"""How many calls run at a time, and how often one may begin: of one execution, and of a module in this process."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count
from weakref import WeakValueDictionary

from cachetools import LRUCache

_MOST_RATES = 1000
"""Rates of modules. One that was not used for long is forgotten."""


class PrioritySlots:
    """A number of slots. Of those that wait for one, the highest priority is next, and the first of equal ones.

    `taken` counts the slots that were taken.
    """

    def __init__(self, slots: int) -> None:
        self.taken = 0
        self._free = slots
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = count()

    @asynccontextmanager
    async def slot(self, priority: int) -> AsyncGenerator[None]:
        """Hold a slot inside the block."""
        self.taken += 1
        if self._free:
            self._free -= 1
        else:
            await self._wait(priority)
        try:
            yield
        finally:
            self._give()

    async def _wait(self, priority: int) -> None:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (-priority, next(self._arrival), granted))
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            *_, granted = heapq.heappop(self._waiting)
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1


class Pacing:
    """The options `throttle` and `concurrency`. They hold for all executions in this process."""

    def __init__(self) -> None:
        self._running = WeakValueDictionary[tuple[str, int], asyncio.Semaphore]()
        self._begun = LRUCache[tuple[str, int, float], deque[float]](_MOST_RATES)

    @asynccontextmanager
    async def concurrency(self, module: str, most: int | None) -> AsyncGenerator[None]:
        """Be one of at most `most` calls of a module that run; None: of any number."""
        if most is None:
            yield
            return
        running = self._running.setdefault((module, most), asyncio.Semaphore(most))
        async with running:
            yield

    async def throttle(self, module: str, most: int, seconds: float) -> None:
        """Wait until fewer than `most` calls of a module have begun in the last `seconds`.

        A call takes the next free time at once, so calls begin in their order.
        """
        clock = asyncio.get_running_loop().time
        key = (module, most, seconds)
        begun = self._begun[key] = self._begun.get(key) or deque(maxlen=most)
        begins = max(clock(), begun[0] + seconds) if len(begun) == most else clock()
        begun.append(begins)
        await asyncio.sleep(begins - clock())
