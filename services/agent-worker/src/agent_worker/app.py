"""Builds the worker: it hosts team folders and executes the turns of their agents."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from agent_worker.metrics import make_metrics
from agent_worker.settings import WorkerSettings
from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import connect_when_possible
from pallas_bus.transport.streams import declare
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, TURN_LOG, TURN_QUEUE, WORKER, WORKERS
from pallas_executor.executor import Executor, Troubles, execute_turns
from pallas_executor.teams.host_teams import HostTeams
from pallas_executor.teams.hosted_team import HostedTeam
from pallas_runtime.process import Process
from pallas_teams import TeamFolder

KINDS = frozenset({"llm", "function"})
"""The kinds of agents that this worker executes. A folder's agents of other kinds are not its business."""


async def _make(folder: TeamFolder, *, trace_content: bool) -> HostedTeam:
    from agent_worker.teams.make_agents import host_team

    return await host_team(folder, trace_content=trace_content)


@asynccontextmanager
async def build(settings: WorkerSettings, process: Process) -> AsyncGenerator[Executor]:
    """Connect, host the teams and execute their turns."""
    access = Access.of(settings)
    async with (
        connect_when_possible(access, WORKER, instance=process.instance) as bus,
        process.uses(bus),
    ):
        await declare(bus, AGENTS, WORKERS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS, replicas=settings.stream_replicas)
        metrics = make_metrics(process.probes.metrics)
        async with execute_turns(
            bus, access, process, metrics, slots=settings.slots, content_seconds=settings.content_seconds
        ) as executor:
            make = partial(_make, trace_content=settings.trace_content)
            hosting = HostTeams(executor, settings.teams, make, KINDS)
            await hosting.host_teams()
            background = [
                process.vital(bus.spawn(hosting.follow_changes())),
                process.vital(bus.spawn(executor.send_presence(Troubles(failed=hosting.failed, stdio=hosting.stdio)))),
            ]
            try:
                yield executor
            finally:
                for task in background:
                    task.cancel()
                await executor.close()
                await hosting.close()
