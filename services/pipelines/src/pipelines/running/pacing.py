"""How many calls run at a time, and how often one may begin: of one execution, and of a module in this process."""

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

_MOST_MODULES = 1000


class PrioritySlots:
    """A number of slots. Of those that wait for one, the highest priority is next, and the first of equal ones."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrival = count()

    @asynccontextmanager
    async def slot(self, priority: int) -> AsyncGenerator[None]:
        """Hold a slot inside the block."""
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
    """The options `throttle` and `concurrency`. They hold for all executions in this process, and one set of modules.

    Modules that were not called for long are forgotten.
    """

    def __init__(self) -> None:
        self._running: OrderedDict[tuple[str, int], asyncio.Semaphore] = OrderedDict()
        self._begun: OrderedDict[tuple[str, int, float], deque[float]] = OrderedDict()

    @asynccontextmanager
    async def concurrency(self, module: str, most: int | None) -> AsyncGenerator[None]:
        """Be one of at most `most` calls of a module that run; None: of any number."""
        if most is None:
            yield
            return
        running = self._running.setdefault((module, most), asyncio.Semaphore(most))
        self._running.move_to_end((module, most))
        async with running:
            yield
        oldest = next(iter(self._running))
        if len(self._running) > _MOST_MODULES and not self._running[oldest].locked():
            del self._running[oldest]

    async def throttle(self, module: str, most: int, seconds: float) -> None:
        """Wait until fewer than `most` calls of a module have begun in the last `seconds`.

        A call takes the next free time at once, so calls begin in their order.
        """
        clock = asyncio.get_running_loop().time
        begun = self._begun.setdefault((module, most, seconds), deque(maxlen=most))
        self._begun.move_to_end((module, most, seconds))
        begins = max(clock(), begun[0] + seconds) if len(begun) == most else clock()
        begun.append(begins)
        if len(self._begun) > _MOST_MODULES:
            self._begun.popitem(last=False)
        await asyncio.sleep(begins - clock())
