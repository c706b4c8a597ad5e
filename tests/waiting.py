"""Waiting in tests: always for something to happen, and never longer than a bound."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

PATIENCE = 30.0
"""Seconds after which something that should happen soon counts as not happening, on a machine that is busy, too."""

_LOOK_AGAIN = 0.005
_TICK = 0.005


async def soon[T](awaited: Awaitable[T], within: float = PATIENCE) -> T:
    """Return what is awaited, or fail with TimeoutError after `within` seconds."""
    async with asyncio.timeout(within):
        return await awaited


class Collected[T]:
    """A list that can be waited on: give `add` to whoever has something to tell."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._changed = asyncio.Event()

    def add(self, item: T) -> None:
        """Take one more item."""
        self.items.append(item)
        self._changed.set()

    async def until(self, enough: Callable[[list[T]], bool], within: float = PATIENCE) -> list[T]:
        """Wait until `enough(items)`; fail with what there is after `within` seconds."""
        try:
            async with asyncio.timeout(within):
                while not enough(self.items):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not enough after {within} s: {self.items!r}") from None
        return self.items

    async def count(self, number: int, within: float = PATIENCE) -> list[T]:
        """Wait until there are at least `number` items."""
        return await self.until(lambda items: len(items) >= number, within)


async def eventually(condition: Callable[[], bool], within: float = PATIENCE) -> None:
    """Look again and again until `condition` holds; for what tells nobody when it changes."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_LOOK_AGAIN)


class Stopwatch:
    """Made by `timing`; `seconds` is what it has counted so far."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._at, self._used = time.monotonic(), time.process_time()

    def tick(self) -> None:
        """Count the time since the last tick: all of it that was used, and of the rest no more than a tick takes."""
        now, used = time.monotonic(), time.process_time()
        self.seconds += max(used - self._used, min(now - self._at, 2 * _TICK))
        self._at, self._used = now, used


@asynccontextmanager
async def timing() -> AsyncGenerator[Stopwatch]:
    """How long the block takes, without the time for which the machine let this process wait for its turn.

    What is waited for in the block counts, and so does the processor that this process uses. A machine that stands
    still, or is busy with others, makes the ticks late, and of a late tick only the usual time counts.
    """
    watch = Stopwatch()

    async def run() -> None:
        while True:
            watch.tick()
            await asyncio.sleep(_TICK)

    running = asyncio.create_task(run())
    try:
        yield watch
    finally:
        watch.tick()
        running.cancel()


@asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None]:
    """Fail when the block takes longer than is promised, by `timing`."""
    async with timing() as watch:
        yield
    assert watch.seconds < seconds, f"took {watch.seconds:.3f} s"
