"""Builds a worker of team folders: it hosts them and executes the turns of their agents."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import Bus, connect_when_possible
from pallas_bus.transport.leaders import Leaders, watch_leaders
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.content.sealed import seal_key
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, HOLDS, TURN_LOG, TURN_QUEUE, WORKER, WORKERS
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_executor.teams.host_teams import HostTeams
from pallas_executor.teams.hosted_team import HostedTeam
from pallas_executor.teams.metrics import make_metrics
from pallas_executor.teams.settings import WorkerSettings
from pallas_executor.teams.watching import Watching
from pallas_runtime.process import STORED, Process
from pallas_teams import TeamFolder
from pallas_teams.prices import NO_PRICES, load_prices

type MakeTeam = Callable[[TeamFolder, Watching], Awaitable[HostedTeam]]
"""Makes the agents of a checked folder."""


@asynccontextmanager
async def work_for_teams(
    settings: WorkerSettings, process: Process, make: MakeTeam, kinds: frozenset[str], *, reloads: bool = True
) -> AsyncGenerator[Executor]:
    """Connect, host the teams' agents of these kinds, and execute their turns.

    Without `reloads`, the process ends when a folder has changed.

    Raises:
        Rejected: the price table has faults.
    """
    prices = load_prices(settings.prices) if settings.prices is not None else NO_PRICES
    access = Access.of(settings)
    async with (
        connect_when_possible(access, WORKER, instance=process.instance) as bus,
        process.uses(bus),
    ):
        used = (AGENTS, WORKERS, HOLDS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS)
        await declare(bus, *used, replicas=settings.stream_replicas)
        metrics = make_metrics(process.probes.metrics)
        watching = Watching(settings.trace_content, prices, metrics.models)
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

            async def make_watched(folder: TeamFolder) -> HostedTeam:
                return await make(folder, watching)

            hosting = HostTeams(executor, settings.teams, make_watched, kinds, keeps_failed=key is not None)
            await hosting.host_teams()
            troubles = Troubles(failed=hosting.failed, agents=hosting.troubles, stdio=hosting.stdio)
            background = [
                process.vital(bus.spawn(hosting.follow_changes() if reloads else hosting.wait_for_change())),
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
    """Keep asking for the leader of the log, in the name of the first team; without a team nothing is written."""
    team = next(iter(hosting.hosted), None)
    return watch_leaders(bus, *(() if team is None else (TURN_LOG,)), team=team)
