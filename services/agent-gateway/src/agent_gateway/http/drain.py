"""The requests that a gateway is serving: until when there are some, and their end when it can wait no longer."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

_LAST_WORDS = 1.0
"""Seconds for which requests that are cut off may still tell their clients so."""


@dataclass
class UnderWay:
    """`stopping` means that nothing new is taken, `cut` that the requests which are left are cancelled."""

    stopping: bool = False
    cut: bool = False
    _tasks: set[asyncio.Task[object]] = field(default_factory=set["asyncio.Task[object]"])
    _waited_for: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._idle.set()

    @contextmanager
    def serving(self, *, waited_for: bool) -> Generator[None]:
        """Count this task's request. One that ends only when its client goes is not `waited_for`."""
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
        """Take nothing new and wait for what is under way; what is still there when this is cancelled is cut off."""
        self.stopping = True
        try:
            await self._idle.wait()
        finally:
            self.cut = True
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_LAST_WORDS)
