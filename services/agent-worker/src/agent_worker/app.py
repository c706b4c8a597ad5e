"""Builds the worker: it hosts team folders and executes the turns of their agents."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from agent_worker.metrics import make_metrics
from agent_worker.settings import WorkerSettings
from agent_worker.teams.watching import Watching
from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import Bus, connect_when_possible
from pallas_bus.transport.leaders import Leaders, watch_leaders
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.content.sealed import seal_key
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, HOLDS, TURN_LOG, TURN_QUEUE, WORKER, WORKERS
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_executor.teams.host_teams import HostTeams
from pallas_executor.teams.hosted_team import HostedTeam
from pallas_runtime.process import STORED, Process
from pallas_teams import TeamFolder
from pallas_teams.prices import NO_PRICES, load_prices

KINDS = frozenset({"llm", "function"})
"""The kinds of agents that this worker executes. A folder's agents of other kinds are not its business."""


async def _make(folder: TeamFolder, *, watching: Watching) -> HostedTeam:
    from agent_worker.teams.make_agents import host_team

    return await host_team(folder, watching)


@asynccontextmanager
async def build(settings: WorkerSettings, process: Process) -> AsyncGenerator[Executor]:
    """Connect, host the teams and execute their turns.

    Raises:
        Rejected: the price table has faults.
    """
    prices = load_prices(settings.prices) if settings.prices is not None else NO_PRICES
    access = Access.of(settings)
    async with (
        connect_when_possible(access, WORKER, instance=process.instance) as bus,
        process.uses(bus),
    ):
        await declare(
            bus, AGENTS, WORKERS, HOLDS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS, replicas=settings.stream_replicas
        )
        metrics = make_metrics(process.probes.metrics)
        key = seal_key(settings.keep_public_key) if settings.keep_public_key is not None else None
        async with execute_turns(
            bus,
            access,
            process,
            metrics.executor,
            slots=settings.slots,
            content_seconds=settings.content_seconds,
            keep_key=key,
            hold=settings.hold,
        ) as executor:
            make = partial(_make, watching=Watching(settings.trace_content, prices, metrics.models))
            hosting = HostTeams(executor, settings.teams, make, KINDS, keeps_failed=key is not None)
            await hosting.host_teams()
            troubles = Troubles(failed=hosting.failed, agents=hosting.troubles, stdio=hosting.stdio)
            background = [
                process.vital(bus.spawn(hosting.follow_changes())),
                process.vital(bus.spawn(executor.send_presence(troubles))),
            ]
            try:
                async with _watch_log(bus, hosting) as leaders:
                    process.probes.checks[STORED] = leaders.missing
                    yield executor
            finally:
                for task in background:
                    task.cancel()
                await executor.close()
                await hosting.close()


def _watch_log(bus: Bus, hosting: HostTeams) -> AbstractAsyncContextManager[Leaders]:
    """Keep asking for the log's leader, in the name of the first team; without a team nothing is written."""
    team = next(iter(hosting.hosted), None)
    return watch_leaders(bus, *(() if team is None else (TURN_LOG,)), team=team)
