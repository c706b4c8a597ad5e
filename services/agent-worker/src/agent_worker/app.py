"""Builds the worker: it hosts agents with a model and function agents of team folders, and executes their turns."""

from contextlib import AbstractAsyncContextManager

from agent_worker.settings import WorkerSettings
from pallas_hosting.folders import HostedTeam
from pallas_hosting.metered import Watching
from pallas_hosting.worker import work_for_teams
from pallas_runtime.process import Process
from pallas_runtime.run import Service
from pallas_teams import TeamFolder
from pallas_turns.executor import Executor

KINDS = frozenset({"llm", "function"})
"""The kinds of agents that this worker executes. A folder's agents of other kinds are not its business."""


def build(settings: WorkerSettings, process: Process) -> AbstractAsyncContextManager[Executor]:
    """Connect, host the teams and execute their turns.

    Raises:
        Rejected: the price table has faults.
    """
    return work_for_teams(settings, process, _make, KINDS)


async def _make(folder: TeamFolder, watching: Watching) -> HostedTeam:
    from agent_worker.teams import host_team

    return await host_team(folder, watching)


SERVICE = Service("agent-worker", WorkerSettings, build)
