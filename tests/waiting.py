"""Waiting in tests: for an event, and never longer than a bound."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil

PATIENCE = 60.0
"""Seconds after which an expected event counts as missing, also on a busy machine."""

_LOOK_AGAIN = 0.005
_TICK = 0.005


async def soon[T](awaited: Awaitable[T], within: float = PATIENCE) -> T:
    """Return what is awaited, or fail with TimeoutError after `within` seconds."""
    async with asyncio.timeout(within):
        return await awaited


class Collected[T]:
    """A list that can be waited on. Pass `add` as a callback."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._changed = asyncio.Event()

    def add(self, item: T) -> None:
        self.items.append(item)
        self._changed.set()

    async def until(self, enough: Callable[[list[T]], bool], within: float = PATIENCE) -> list[T]:
        """Wait until `enough(items)`; fail with the items so far after `within` seconds."""
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
    """Poll until `condition` holds; for conditions without an event."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_LOOK_AGAIN)


def is_gone(pid: int) -> bool:
    """Whether no process has this id any more (a zombie counts as gone)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def run_delay() -> float:
    """Seconds for which this thread was ready to run without a processor, from Linux; 0 elsewhere."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


class Stopwatch:
    """Made by `timing`. `seconds` is the time counted so far.

    `stood_still` is the time for which no thread of the process could run, measured by another thread.
    """

    def __init__(self) -> None:
        self.seconds = self.stood_still = 0.0
        self._last = self._now()

    def _now(self) -> tuple[float, float, float]:
        return time.monotonic(), time.process_time(), run_delay() + self.stood_still

    def tick(self) -> None:
        """Count the time since the last tick, without the time that the machine took."""
        now = self._now()
        passed, used, taken = (after - before for after, before in zip(now, self._last, strict=True))
        self.seconds += max(used, min(passed, 2 * _TICK), passed - taken)
        self._last = now

    def look_for_standstills(self, ended: threading.Event) -> None:
        """Runs in its own thread: sleeps for a tick, and counts delays that are not a wait for a processor."""
        while not ended.is_set():
            at, delay = time.monotonic(), run_delay()
            ended.wait(_TICK)
            self.stood_still += max(0.0, time.monotonic() - at - (run_delay() - delay) - 2 * _TICK)


@asynccontextmanager
async def timing() -> AsyncGenerator[Stopwatch]:
    """Measure the block, without the time for which this process waited for a processor.

    What is waited for in the block counts, and so do the processor that this process uses and a call that blocks the
    event loop. Of a tick that is late because the machine stands still, or is busy with others, the usual time counts.
    """
    watch, ended = Stopwatch(), threading.Event()
    polling = threading.Thread(target=watch.look_for_standstills, args=(ended,))

    async def run() -> None:
        while True:
            watch.tick()
            await asyncio.sleep(_TICK)

    polling.start()
    running = asyncio.create_task(run())
    try:
        yield watch
    finally:
        watch.tick()
        running.cancel()
        ended.set()
        polling.join()


@asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None]:
    """Fail if the block takes more than `seconds`, measured by `timing`."""
    async with timing() as watch:
        yield
    assert watch.seconds < seconds, f"took {watch.seconds:.3f} s"


@contextmanager
def without_collections() -> Generator[None]:
    """Keep the collector of garbage away: it looks through what all tests before have left, which takes up to 0.3 s."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def within_cpu(seconds: float, work: Callable[[], object]) -> None:
    """Fail if `work` takes `seconds` of processor time or more.

    The fastest of up to three runs counts: a virtual machine may become three times slower for a while.
    """
    took = list[float]()
    with without_collections():
        while len(took) < 3 and all(each >= seconds for each in took):
            began = time.process_time()
            work()
            took.append(time.process_time() - began)
    assert min(took) < seconds, f"took {min(took):.3f} s"


@contextmanager
def loop_lag() -> Generator[list[float]]:
    """The delays of callbacks on the event loop, measured from another thread.

    Only the time counts in which this process had a processor, with any of its threads: what blocks the loop here are
    computations, and on a busy machine a process may wait for a processor for longer than they take.
    """
    loop, lags, stop = asyncio.get_running_loop(), list[float](), threading.Event()

    def ask() -> None:
        while not stop.is_set():
            done, asked, used = threading.Event(), time.monotonic(), time.process_time()
            loop.call_soon_threadsafe(done.set)
            while not done.wait(0.05) and not stop.is_set():
                pass
            lags.append(min(time.monotonic() - asked, time.process_time() - used))
            stop.wait(0.005)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with without_collections():
            yield lags
    finally:
        stop.set()
        thread.join()
