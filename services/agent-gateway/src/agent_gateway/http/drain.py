"""The requests that a gateway is serving: waits for them when it drains, and cuts off the rest."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from pallas_runtime.http.bodies import UnderWay

_CUT_OFF_SECONDS = 1.0
"""Seconds in which requests that are cut off can still end their responses."""


@dataclass
class GatewayRequests(UnderWay):
    """The requests under way. `cut`: the remaining ones are cancelled."""

    cut: bool = False
    _tasks: set[asyncio.Task[object]] = field(default_factory=set["asyncio.Task[object]"])

    @contextmanager
    def serving_here(self, *, waited_for: bool) -> Generator[None]:
        """Count this task's request. A drain does not wait for one that is not `waited_for`, such as a subscription."""
        task = asyncio.current_task()
        assert task is not None, "requests are served in tasks"
        self._tasks.add(task)
        try:
            with self.serving() if waited_for else nullcontext():
                yield
        finally:
            self._tasks.discard(task)

    async def finish(self) -> None:
        """Refuse new requests and wait for those being served; when this is cancelled, cut off the rest."""
        try:
            await super().finish()
        finally:
            self.cut = True
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_CUT_OFF_SECONDS)
