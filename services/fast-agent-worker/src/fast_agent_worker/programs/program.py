"""The process of one part of a folder: an agent-worker that hosts these agents and no others."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NoReturn

from fast_agent_worker.hosting import host_team
from fast_agent_worker.parts import Part
from fast_agent_worker.programs.environment import activate
from fast_agent_worker.programs.status import Status
from fast_agent_worker.settings import FastAgentSettings
from pallas_hosting.folders import HostedTeam, HostTeams
from pallas_hosting.metered import Watching
from pallas_hosting.worker import work_for_teams
from pallas_runtime.process import Process
from pallas_runtime.run import Service, run
from pallas_runtime.start import environment
from pallas_teams import TeamFolder
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_turns.executor import Executor


def run_program(order: Mapping[str, Any], status: Status, arguments: Sequence[str]) -> NoReturn:
    """Host the agents of an order until a signal, and exit. It says on which port its probes are."""
    part = Part(tuple(order["agents"]), order["failed"])
    service = Service("agent-worker", FastAgentSettings, partial(_build, part, status))
    run(service, environment(arguments) | order["environ"])


@asynccontextmanager
async def _build(part: Part, status: Status, settings: FastAgentSettings, process: Process) -> AsyncGenerator[Executor]:
    async def make(folder: TeamFolder, watching: Watching) -> HostedTeam:
        activate(folder.folder, os.environ)
        return await host_team(folder, settings, watching, part=part, making=status.making)

    def made(hosting: HostTeams) -> None:
        for file in hosting.files_read():
            status.say(read=str(file))
        status.say(made=True, failed=bool(hosting.failed()), port=process.port)

    async with (
        work_for_teams(settings, process, make, frozenset({FAST_AGENT}), made=made) as executor,
        process.running(status.keep_saying(process.probes), "signs of life"),
    ):
        yield executor
