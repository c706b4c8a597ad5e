"""The requests that a gateway is serving: waits for them when it drains, and cuts off the rest."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

_CUT_OFF_SECONDS = 1.0
"""Seconds in which requests that are cut off can still end their responses."""


@dataclass
class UnderWay:
    """`stopping`: new requests are refused; `cut`: the remaining requests are cancelled."""

    stopping: bool = False
    cut: bool = False
    _tasks: set[asyncio.Task[object]] = field(default_factory=set["asyncio.Task[object]"])
    _waited_for: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._idle.set()

    @contextmanager
    def serving(self, *, waited_for: bool) -> Generator[None]:
        """Count this task's request. A drain does not wait for one that is not `waited_for`, such as a subscription."""
        task = asyncio.current_task()
        assert task is not None, "requests are served in tasks"
        self._tasks.add(task)
        self._waited_for += waited_for
        if waited_for:
            self._idle.clear()
        try:
            yield
        finally:
            self._tasks.discard(task)
            self._waited_for -= waited_for
            if not self._waited_for:
                self._idle.set()

    async def finish(self) -> None:
        """Refuse new requests and wait for those being served; when this is cancelled, cut off the rest."""
        self.stopping = True
        try:
            await self._idle.wait()
        finally:
            self.cut = True
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_CUT_OFF_SECONDS)
