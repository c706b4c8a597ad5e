"""Builds the worker: it hosts the fast-agent agents of one team folder and executes their turns.

A changed folder is hosted by a new process, because modules and settings of fast-agent cannot be loaded twice: this one
ends, and whoever keeps it starts it again.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from fast_agent_worker.settings import FastAgentSettings
from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import connect_when_possible
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.content.sealed import seal_key
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, HOLDS, TURN_LOG, TURN_QUEUE, WORKER, WORKERS
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_executor.metrics import make_metrics
from pallas_executor.teams.host_teams import HostTeams
from pallas_executor.teams.hosted_team import HostedTeam
from pallas_runtime.process import Process
from pallas_teams import TeamFolder
from pallas_teams.fast_agent.kinds import FAST_AGENT

log = logging.getLogger(__name__)


@asynccontextmanager
async def build(settings: FastAgentSettings, process: Process) -> AsyncGenerator[Executor]:
    """Connect, host the team and execute its turns."""
    access = Access.of(settings)
    folders = tuple(map(_absolute, settings.teams))

    async def make(folder: TeamFolder) -> HostedTeam:
        from fast_agent_worker.hosting import host_team

        return await host_team(folder, settings)

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
            metrics,
            slots=settings.slots,
            content_seconds=settings.content_seconds,
            keep_key=key,
            hold=settings.hold,
        ) as executor:
            hosting = HostTeams(executor, folders, make, frozenset({FAST_AGENT}), keeps_failed=key is not None)
            await hosting.host_teams()
            troubles = Troubles(failed=hosting.failed, agents=hosting.troubles, stdio=hosting.stdio)
            background = [
                process.vital(bus.spawn(hosting.wait_for_change())),
                process.vital(bus.spawn(executor.send_presence(troubles))),
            ]
            try:
                yield executor
            finally:
                for task in background:
                    task.cancel()
                await executor.close()
                await hosting.close()


def _absolute(folder: Path) -> Path:
    """The folder by a path that holds in another working directory."""
    return folder.absolute()
