"""Builds the worker: it hosts the fast-agent agents of one team folder and executes their turns.

A changed folder is hosted by a new process, because modules and settings of fast-agent cannot be loaded twice: this one
ends, and whoever keeps it starts it again.
"""

from contextlib import AbstractAsyncContextManager

from fast_agent_worker.settings import FastAgentSettings
from pallas_hosting.folders import HostedTeam
from pallas_hosting.metered import Watching
from pallas_hosting.worker import work_for_teams
from pallas_runtime.process import Process
from pallas_runtime.run import Service
from pallas_teams import TeamFolder
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_turns.executor import Executor


def build(settings: FastAgentSettings, process: Process) -> AbstractAsyncContextManager[Executor]:
    """Connect, host the team and execute its turns.

    Raises:
        Rejected: the price table has faults.
    """

    async def make(folder: TeamFolder, watching: Watching) -> HostedTeam:
        from fast_agent_worker.hosting import host_team

        return await host_team(folder, settings, watching)

    return work_for_teams(settings, process, make, frozenset({FAST_AGENT}), reloads=False)


SERVICE = Service("agent-worker", FastAgentSettings, build)

"""At the broker it is an agent-worker: it has the same rights."""
