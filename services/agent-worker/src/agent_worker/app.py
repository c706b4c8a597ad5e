"""The worker, put together: team folders in, turns pulled for its slots, presence out."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from agent_worker.settings import WorkerSettings
from agent_worker.teams.host_teams import HostTeams, Teams
from pallas_bus.transport import kv
from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import Bus, connect_when_possible
from pallas_bus.transport.polling import polling
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.claims import watch_claims
from pallas_bus.turnlog.heartbeats import send_heartbeats
from pallas_bus.turnlog.puller import TurnPuller
from pallas_contracts.agents import WorkerPresence
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, PRESENCE_TTL, TURN_LOG, TURN_QUEUE, WORKER, WORKERS
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_executor.dead_letters import DeadLetters
from pallas_executor.executor import HEARTBEATS, Executor
from pallas_executor.metrics import make_metrics
from pallas_executor.running import Running
from pallas_executor.slots import Slots
from pallas_executor.take_turn import TakeTurn
from pallas_runtime.run import BROKER, Process

log = logging.getLogger(__name__)


_CLAIMS_POLL_SECONDS = 15.0
"""A look asks for every turn that runs, and only ends sooner what could not end well: the broker refuses the rest."""


@asynccontextmanager
async def build(settings: WorkerSettings, process: Process) -> AsyncGenerator[Executor]:
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
        worker = Executor(
            Slots(settings.slots, lambda: len(teams.agents)),
            TakeTurn(bus, process.instance, settings.content_seconds, teams.agents.get, running, letters, metrics),
        )
        worker.puller = TurnPuller(bus, worker.slots.room, worker.take)
        metrics.watch(worker.slots)
        reread = partial(running.reread, bus)
        async with (
            AsyncExitStack() as hearing,
            send_heartbeats(access, process.instance) as heartbeats_lost,
            process.without(heartbeats_lost, HEARTBEATS),
            polling(bus, reread, _CLAIMS_POLL_SECONDS),
        ):

            async def hear(team: str) -> None:
                await hearing.enter_async_context(watch_claims(bus, running.heard, team=team))

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
                    await kv.delete(bus, WORKERS, worker=bus.instance)


async def _beat(bus: Bus, worker: Executor, teams: Teams) -> None:
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
        await kv.beat(bus, WORKERS, presence, worker=bus.instance)
        await asyncio.sleep(PRESENCE_TTL / 3)
