"""What a service gets besides its settings: how its parts run, what it needs, and when it ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from pallas_runtime.probes import Probes, Readiness

log = logging.getLogger(__name__)

BROKER = "broker"
"""The readiness check of the connection to the broker."""
NOT_CONNECTED = "not connected"

STORED = "streams"
"""The readiness check that the streams to which the process writes have a leader."""


class Connection(Protocol):
    """A connection to the broker, which restores itself until it is closed."""

    @property
    def connected(self) -> bool:
        """Whether it can be used right now."""
        ...

    @property
    def closed(self) -> asyncio.Event:
        """Set when the connection is closed for good."""
        ...


@dataclass
class Process:
    """A process of a service. Setting `failed` ends it."""

    service: str
    instance: str
    port: int
    probes: Probes
    failed: asyncio.Event = field(default_factory=asyncio.Event)

    def vital[T](self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        """End the process when `task` ends by itself, and return the task.

        A process with a dead part would look healthy to its supervisor, which could not restart it.
        """
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            error = task.exception()
            extra = {"work": task.get_name(), "error": type(error).__name__}
            log.error("vital work has ended", extra=extra, exc_info=error)
            self.failed.set()

    @asynccontextmanager
    async def running(self, work: Coroutine[Any, Any, None], name: str) -> AsyncGenerator[None]:
        """Run `work` in a task until the block ends. If it ends before, the process ends."""
        task = self.vital(asyncio.create_task(work, name=name))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    @asynccontextmanager
    async def ends_when(self, lost: asyncio.Event, what: str) -> AsyncGenerator[None]:
        """End the process when `lost` is set inside the block: `what` is lost for good, and needed."""
        waiting = self.vital(asyncio.create_task(lost.wait(), name=what))
        try:
            yield
        finally:
            waiting.cancel()

    @asynccontextmanager
    async def uses(self, broker: Connection) -> AsyncGenerator[None]:
        """Be ready only while the broker is connected, and end when its connection is closed for good."""
        self.probes.checks[BROKER] = lambda: None if broker.connected else NOT_CONNECTED
        async with self.ends_when(broker.closed, "connection to the broker"):
            yield

    @asynccontextmanager
    async def needs(self, **checks: Callable[[], Awaitable[None]]) -> AsyncGenerator[Readiness]:
        """Be ready only while these dependencies, by name, pass their checks, which are made once a second."""
        readiness = Readiness(checks)
        for name in checks:
            self.probes.checks[name] = partial(readiness.missing, name)
        async with self.running(readiness.keep_checking(), "readiness checks"):
            yield readiness
