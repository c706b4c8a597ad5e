"""The worker, put together: team folders in, turns pulled for its slots, presence out."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from agent_worker.dead_letters import DeadLetters
from agent_worker.handlers.host_teams import HostTeams, Teams
from agent_worker.handlers.take_turn import CLEAN_UP, TakeTurn
from agent_worker.metrics import make_metrics
from agent_worker.running import Running
from agent_worker.settings import WorkerSettings
from agent_worker.slots import Slots
from pallas_bus import tables
from pallas_bus.access import Access
from pallas_bus.alive import pulse
from pallas_bus.connection import Bus, connect_when_possible
from pallas_bus.looks import looking
from pallas_bus.streams import declare
from pallas_bus.turn_claims import hear_claims
from pallas_bus.turn_puller import TurnPuller
from pallas_bus.turn_queue import Delivery
from pallas_contracts.agents import WorkerPresence
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, PRESENCE_TTL, TURN_LOG, TURN_QUEUE, WORKER, WORKERS
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_runtime.run import BROKER, Process

log = logging.getLogger(__name__)

PULSE = "pulse"
"""What no worker can do `without`: gateways give the turns of one without a pulse to others."""

_CLAIMS_LOOK_SECONDS = 15.0
"""A look asks for every turn that runs, and only ends sooner what could not end well: the broker refuses the rest."""

_GIVE_BACK = 2.0
"""Seconds in which a turn is given back when this worker ends."""


@dataclass
class Worker:
    """A worker at work. Turns run as tasks of their own; `idle` is set while there is none."""

    slots: Slots
    taking: TakeTurn
    http: None = None
    puller: TurnPuller | None = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def take(self, key: str, delivery: Delivery) -> bool:
        """Start a delivered turn if there is a slot for it."""
        if not self.slots.take(key):
            return False
        self.idle.clear()
        task = asyncio.create_task(self._turn(key, delivery), name=f"{key} at {delivery.position}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _turn(self, key: str, delivery: Delivery) -> None:
        try:
            await self.taking.take_turn(key, delivery)
        finally:
            self.slots.give(key)
            if not self.slots.busy:
                self.idle.set()
            if self.puller is not None:
                await self.puller.refill()

    async def drain(self) -> None:
        """Pull nothing more and wait for the turns that run."""
        if self.puller is not None:
            await self.puller.stop()
        if self.slots.busy and not self.taking.bus.closed.is_set():
            await self.idle.wait()

    async def abandon(self) -> None:
        """Give back what still runs, so that another worker takes it at once; this one must not pull it again."""
        if self.puller is not None:
            await self.puller.stop()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=CLEAN_UP + _GIVE_BACK)
            for task in left:
                log.warning("a turn does not end and is left behind", extra={"turn": task.get_name()})


@asynccontextmanager
async def build(settings: WorkerSettings, process: Process) -> AsyncGenerator[Worker]:
    """Connect, host the teams and start to pull."""
    access = Access.of(settings)
    async with (
        connect_when_possible(access, WORKER, instance=process.instance) as bus,
        process.without(bus.closed, BROKER),
    ):
        process.probes.checks["broker"] = lambda: None if bus.connected else "not connected"
        await declare(bus, AGENTS, WORKERS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS, replicas=settings.stream_replicas)
        metrics = make_metrics(process.probes.metrics)
        teams, running = Teams(metrics.agents), Running()
        letters = DeadLetters(bus, settings.content_seconds, metrics)
        worker = Worker(
            Slots(settings.slots, lambda: len(teams.agents)),
            TakeTurn(bus, process.instance, settings.content_seconds, teams.agents.get, running, letters, metrics),
        )
        worker.puller = TurnPuller(bus, worker.slots.room, worker.take)
        metrics.watch(worker.slots)
        reread = partial(running.reread, bus)
        async with (
            AsyncExitStack() as hearing,
            pulse(access, process.instance) as pulse_lost,
            process.without(pulse_lost, PULSE),
            looking(bus, reread, _CLAIMS_LOOK_SECONDS),
        ):

            async def hear(team: str) -> None:
                await hearing.enter_async_context(hear_claims(bus, running.heard, team=team))

            bus.on_reconnect(reread)
            await worker.puller.start()
            hosting = HostTeams(bus, hear, worker.puller, settings.teams, teams, trace_content=settings.trace_content)
            await hosting.host_teams()
            background = [
                process.vital(bus.spawn(hosting.follow_changes())),
                process.vital(bus.spawn(_beat(bus, worker, teams))),
                process.vital(bus.spawn(running.beat())),
            ]
            try:
                yield worker
            finally:
                for task in background:
                    task.cancel()
                await worker.abandon()
                for hosted in teams.hosted.values():
                    await hosted.shared.close()
                with suppress(PallasError):  # else it expires
                    await tables.delete(bus, WORKERS, worker=bus.instance)


async def _beat(bus: Bus, worker: Worker, teams: Teams) -> None:
    """Say three times per time to live that this worker is here, and what it hosts."""
    while True:
        presence = WorkerPresence(
            worker=bus.instance,
            slots=worker.slots.total,
            busy=worker.slots.busy,
            agents=tuple(sorted(teams.agents)),
            failed=teams.failed,
            stdio=teams.stdio(),
            at=utc_now(),
        )
        await tables.beat(bus, WORKERS, presence, worker=bus.instance)
        await asyncio.sleep(PRESENCE_TTL / 3)
