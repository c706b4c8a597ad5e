"""The heartbeats of workers. A lost worker is known by their absence, and its turns are nak'ed and redelivered at once.

Without the nak the broker redelivers a turn too, but only after a wait that healthy workers need. Each gateway watches
the turns it follows, so usually one gateway naks a turn. A wrong nak is safe, only wasteful: the next worker has to
claim the turn, and the log decides between the two; a turn that must not be executed again is not ended before the
first worker's presence has expired.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from pallas_bus.access import Access
from pallas_bus.connection import Bus, Msg, connect_when_possible
from pallas_bus.reads import read_last
from pallas_contracts.agents import WorkerAlive
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, WORKER, WORKER_ALIVE
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import Claimed, TurnClaim
from pallas_turns.claims import TurnRef
from pallas_turns.queue import nak

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 0.25
"""Seconds between two heartbeats."""

SILENCE = 4 * HEARTBEAT_SECONDS
"""Seconds without a heartbeat after which a worker counts as lost."""


@dataclass(slots=True)
class _Held:
    """A turn that `worker` has claimed at `since`; `context` is that of a caller who follows it."""

    worker: str
    delivery: str
    since: float
    context: Context


@dataclass(slots=True)
class _Holding:
    """A block in which the worker of a turn is watched. A waiting call holds it, so it is smaller than a generator."""

    turn_id: str
    held: dict[str, _Held]
    followers: Counter[str]

    def __enter__(self) -> Callable[[Claimed], None]:
        self.followers[self.turn_id] += 1
        return self._taken

    def __exit__(self, *_: object) -> None:
        self.followers[self.turn_id] -= 1
        if not self.followers[self.turn_id]:
            del self.followers[self.turn_id]
            self.held.pop(self.turn_id, None)

    def _taken(self, claim: Claimed) -> None:
        if claim.delivery is not None:
            self.held[self.turn_id] = _Held(claim.worker, claim.delivery, time.monotonic(), copy_context())


@dataclass
class WorkerLiveness:
    """The last heartbeats of all workers, and which of this gateway's turns they hold. Made by `watch_workers`."""

    bus: Bus
    keeping: asyncio.Task[None] = field(init=False)
    _heartbeats: dict[str, float] = field(default_factory=dict[str, float])
    _held: dict[str, _Held] = field(default_factory=dict[str, _Held])
    _followers: Counter[str] = field(default_factory=Counter[str])

    def on_heartbeat(self, worker: str) -> None:
        """Record a heartbeat of a worker."""
        self._heartbeats[worker] = time.monotonic()

    def holding(self, turn_id: str) -> "_Holding":
        """Watch the worker of a turn inside the block, which may be entered by several callers of the turn.

        The block gets a function, which it has to call with each claim of the turn.
        """
        return _Holding(turn_id, self._held, self._followers)

    async def keep(self) -> None:
        """Nak the turns of lost workers, for ever. A late round skips this: this process was late, not the workers."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not self.bus.connected or time.monotonic() - began > 2 * HEARTBEAT_SECONDS:
                self.reset()
            else:
                await self._nak_lost_turns()

    def reset(self) -> None:
        """Count the silence of every worker from now."""
        now = time.monotonic()
        self._heartbeats = dict.fromkeys(self._heartbeats, now)
        for held in self._held.values():
            held.since = now

    async def _nak_lost_turns(self) -> None:
        oldest = time.monotonic() - SILENCE
        self._heartbeats = {worker: at for worker, at in self._heartbeats.items() if at > oldest}
        for turn_id, held in list(self._held.items()):
            if self._held.get(turn_id) is not held:
                continue  # it has ended or was claimed again during the nak of another turn
            if held.worker in self._heartbeats or held.since > oldest:
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
    """Watch the workers' heartbeats and nak the turns of lost workers, inside the block."""
    watch = WorkerLiveness(bus)

    async def reconnected() -> None:
        watch.reset()

    remove = bus.on_reconnect(reconnected)
    async with watch_heartbeats(bus, watch.on_heartbeat):
        watch.keeping = bus.spawn(watch.keep())
        try:
            yield watch
        finally:
            remove()
            watch.keeping.cancel()


async def last_claims(bus: Bus, refs: Iterable[TurnRef]) -> dict[str, Claimed]:
    """The last claims of turns, by turn; those that nobody has claimed, or that were cancelled, have none.

    Raises:
        Unavailable: the broker does not answer.
    """
    records = await read_last(bus, TURN_LOG.name, *(ref.on(TURN_CLAIM.template) for ref in refs))
    messages = [TurnClaim.model_validate_json(record.data) for record in records]
    return {message.turn_id: message.claim for message in messages if isinstance(message.claim, Claimed)}


@asynccontextmanager
async def send_heartbeats(access: Access | str, worker: str, *, service: str = WORKER) -> AsyncGenerator[asyncio.Event]:
    """Send heartbeats of `worker`, a replica of `service`, inside the block.

    Yields an event that is set when an error has ended them.
    """
    stop, lost, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    sending = runner.get_loop()

    def run() -> None:
        try:
            with runner:
                runner.run(_send_until(stop, access, worker, service))
        except Exception:
            log.exception("sending heartbeats failed")
            loop.call_soon_threadsafe(lost.set)

    thread = threading.Thread(target=run, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        with suppress(RuntimeError):  # it has ended
            sending.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join, 2 * HEARTBEAT_SECONDS)


async def _send_until(stop: asyncio.Event, access: Access | str, worker: str, service: str) -> None:
    subject = WORKER_ALIVE.template.subject(worker=worker)
    heartbeat = WorkerAlive(worker=worker).model_dump_json().encode()
    while not stop.is_set():
        async with connect_when_possible(access, service, instance=f"{worker}-heartbeats") as bus:
            while not stop.is_set() and not bus.closed.is_set():
                with suppress(Unavailable):
                    await bus.send(subject, heartbeat)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), HEARTBEAT_SECONDS)


@asynccontextmanager
async def watch_heartbeats(bus: Bus, on_heartbeat: Callable[[str], None]) -> AsyncGenerator[None]:
    """Call `on_heartbeat(worker)` for every heartbeat of every worker, inside the block."""

    def arrived(message: Msg) -> None:
        on_heartbeat(message.subject.rpartition(".")[2])

    subscription = await bus.listen(WORKER_ALIVE.template.filter(), arrived)
    try:
        yield
    finally:
        await bus.unsubscribe(subscription)
