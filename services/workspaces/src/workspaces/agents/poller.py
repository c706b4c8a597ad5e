"""Checks the health of all agents, each once in an interval, and new ones at once."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from pallas_contracts.errors import PallasError
from workspaces.agents.health import Entry, HealthBook
from workspaces.agents.targets import Targets
from workspaces.live.hub import ALL, WORK, Hub, Live

log = logging.getLogger(__name__)

AT_ONCE = 32
_READ_SECONDS = 60.0
"""How often agents are read although nothing was told: what is told may be lost."""
_RETRY_SECONDS = 1.0
_NEWS = frozenset(("agents", "instance", "settings", "resync"))

type Interval = Callable[[], Awaitable[float]]


class Poller:
    """Keeps a book up to date. `interval` reads how often agents are checked. Run `run` in a task."""

    def __init__(self, book: HealthBook, targets: Targets, hub: Hub, interval: Interval) -> None:
        self._book = book
        self._targets = targets
        self._hub = hub
        self._interval = interval
        self._news = asyncio.Event()
        self._permits = asyncio.Semaphore(AT_ONCE)
        self._checks = set[asyncio.Task[None]]()

    async def run(self) -> None:
        """Check until cancelled."""
        async with self._hub.subscribe(ALL, WORK) as told:
            listening = asyncio.create_task(self._listen(told))
            try:
                await self._keep_checking()
            finally:
                for task in (listening, *self._checks):
                    task.cancel()

    async def _listen(self, told: AsyncIterator[Live]) -> None:
        async for item in told:
            if item.kind in _NEWS:
                self._news.set()

    async def _keep_checking(self) -> None:
        clock, read_at = asyncio.get_running_loop().time, 0.0
        while True:
            if self._news.is_set() or clock() >= read_at:
                self._news.clear()
                read_at = clock() + (_READ_SECONDS if await self._read() else _RETRY_SECONDS)
            for entry in self._book.take_due():
                await self._permits.acquire()
                self._begin(entry)
            pause = min(self._book.next_due(), read_at - clock())
            try:
                async with asyncio.timeout(max(pause, 0.01)):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _read(self) -> bool:
        """Read the agents and the interval. Returns whether they could be read."""
        try:
            self._book.update(await self._targets.all())
            self._book.reschedule(await self._interval())
        except PallasError as error:
            log.warning("agents cannot be read", extra={"reason": error.message})
            return False
        return True

    def _begin(self, entry: Entry) -> None:
        task = asyncio.create_task(self._check(entry))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check(self, entry: Entry) -> None:
        try:
            await self._book.check(entry)
        finally:
            self._permits.release()
