"""Builds a worker of team folders: it hosts them and executes the turns of their agents."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from pydantic import Field

from pallas_bus.connection import Bus
from pallas_bus.leaders import Leaders, watch_leaders
from pallas_contracts.catalog import TURN_LOG, WORKER
from pallas_hosting.folders import HostedTeam, HostTeams
from pallas_hosting.metered import Watching, make_metrics
from pallas_runtime.process import STORED, Process
from pallas_runtime.settings import ExecutorSettings, Folders
from pallas_teams import TeamFolder
from pallas_teams.prices import NO_PRICES, load_prices
from pallas_turns.executor import Executor, Troubles, execute_turns
from pallas_turns.offer import connect_service, publish_again


class WorkerSettings(ExecutorSettings):
    """Settings of a worker."""

    teams: Folders = Field((), description="team folders to host, separated as in PATH")
    beside: Folders = Field((), description="other team folders: of two with one name, each has a longer one")
    prices: Path | None = Field(None, description="file with the prices of models; none: no model has a price")
    slots: int = Field(64, ge=1, le=4096, description="turns this worker runs at a time")


type MakeTeam = Callable[[TeamFolder, Watching], Awaitable[HostedTeam]]
"""Makes the agents of a checked folder."""


@asynccontextmanager
async def work_for_teams(
    settings: WorkerSettings,
    process: Process,
    make: MakeTeam,
    kinds: frozenset[str],
    *,
    made: Callable[[HostTeams], None] | None = None,
) -> AsyncGenerator[Executor]:
    """Connect, host the teams' agents of these kinds, and execute their turns.

    With `made`, which is called when the teams are hosted, changes of their folders are somebody else's business.

    Raises:
        Rejected: the price table has faults.
    """
    prices = load_prices(settings.prices) if settings.prices is not None else NO_PRICES
    async with connect_service(settings, process, WORKER) as bus:
        metrics = make_metrics(process.probes.metrics)
        watching = Watching(settings.trace_content, prices, metrics.models)
        async with execute_turns(bus, settings, process, metrics.executor, slots=settings.slots) as executor:

            async def make_watched(folder: TeamFolder) -> HostedTeam:
                return await make(folder, watching)

            hosting = HostTeams(executor, settings.teams, make_watched, kinds, beside=settings.beside)
            await hosting.host_teams()
            publish_again(bus, hosting.publish)
            troubles = Troubles(failed=hosting.failed, agents=hosting.troubles, stdio=hosting.stdio)
            background = [process.vital(bus.spawn(executor.send_presence(troubles)))]
            if made is None:
                background.append(process.vital(bus.spawn(hosting.follow_changes())))
            else:
                made(hosting)
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
