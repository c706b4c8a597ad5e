"""Notice that a worker has died, and give its turns to another at once.

The broker would deliver them again by itself, but only after a wait that healthy workers need. Each gateway cares for
the turns it follows, so mostly one gives each of them back. To be wrong is safe, if wasteful: the worker that takes
the turn has to claim it, the log decides between the two, and a turn that cannot be executed again is not ended before
the first worker's presence has expired.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.heartbeats import BEAT, watch_heartbeats
from pallas_bus.turnlog.queue import nak
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import Claimed

log = logging.getLogger(__name__)

SILENCE = 4 * BEAT
"""Seconds without a beat after which a worker counts as dead."""


@dataclass(slots=True)
class _Held:
    """A turn in a worker's hands since `since`; `context` is that of a caller who follows it."""

    worker: str
    delivery: str
    since: float
    context: Context


@dataclass
class WorkerLiveness:
    """The beats of all workers, and who holds which of this gateway's turns. Made by `watch_workers`."""

    bus: Bus
    keeping: asyncio.Task[None] = field(init=False)
    _beats: dict[str, float] = field(default_factory=dict[str, float])
    _held: dict[str, _Held] = field(default_factory=dict[str, _Held])
    _followers: Counter[str] = field(default_factory=Counter[str])

    def heard(self, worker: str) -> None:
        """A worker's process lives."""
        self._beats[worker] = time.monotonic()

    @contextmanager
    def holding(self, turn_id: str) -> Generator[Callable[[Claimed], None]]:
        """Care for a turn inside the block, which several may be in; call what is yielded with each claim of it."""

        def taken(claim: Claimed) -> None:
            if claim.delivery is not None:
                self._held[turn_id] = _Held(claim.worker, claim.delivery, time.monotonic(), copy_context())

        self._followers[turn_id] += 1
        try:
            yield taken
        finally:
            self._followers[turn_id] -= 1
            if not self._followers[turn_id]:
                del self._followers[turn_id]
                self._held.pop(turn_id, None)

    async def keep(self) -> None:
        """Look for silent workers, for ever. A round that comes late says nothing: it was we who did not listen."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(BEAT)
            if not self.bus.connected or time.monotonic() - began > 2 * BEAT:
                self.excuse()
            else:
                await self._nak_lost_turns()

    def excuse(self) -> None:
        """Count every worker as heard just now."""
        now = time.monotonic()
        self._beats = dict.fromkeys(self._beats, now)
        for held in self._held.values():
            held.since = now

    async def _nak_lost_turns(self) -> None:
        oldest = time.monotonic() - SILENCE
        self._beats = {worker: beat for worker, beat in self._beats.items() if beat > oldest}
        for turn_id, held in list(self._held.items()):
            if self._held.get(turn_id) is not held:
                continue  # it has ended or was claimed again while another was given back
            if held.worker in self._beats or held.since > oldest:
                continue
            del self._held[turn_id]
            await asyncio.get_running_loop().create_task(self._nak(held), context=held.context)

    async def _nak(self, held: _Held) -> None:
        log.warning("worker lost; its turn is redelivered", extra={"worker": held.worker})
        try:
            await nak(self.bus, held.delivery)
        except PallasError as error:
            log.warning("cannot nak the turn", extra={"reason": error.message})


@asynccontextmanager
async def watch_workers(bus: Bus) -> AsyncGenerator[WorkerLiveness]:
    """Listen to the workers, and care for what they hold, inside the block."""
    watch = WorkerLiveness(bus)

    async def reconnected() -> None:
        watch.excuse()

    remove = bus.on_reconnect(reconnected)
    async with watch_heartbeats(bus, watch.heard):
        watch.keeping = bus.spawn(watch.keep())
        try:
            yield watch
        finally:
            remove()
            watch.keeping.cancel()
