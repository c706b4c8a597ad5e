"""Measures how many slots the workers of each team need. An autoscaler follows this one figure per team.

It is read from the queue itself, not from consumers, so it includes turns of agents that no worker has hosted yet.
While the broker does not answer there are no series, so that an autoscaler sees an error instead of an old value.
"""

import asyncio
import logging
from collections.abc import Container, Mapping

from health_monitor.metrics import Metrics
from health_monitor.team_folders import TeamFolders
from pallas_bus.connection import Bus
from pallas_contracts.errors import PallasError
from pallas_turns.queue import queued_turns

log = logging.getLogger(__name__)

type Limits = Mapping[str, int | None]
"""Each agent's `max_concurrency`."""


async def measure_teams(
    bus: Bus, published: Container[str], folders: TeamFolders, metrics: Metrics, interval: float
) -> None:
    """Measure for ever, every `interval` seconds. `published` are the agents with a definition (`{team}.{agent}`)."""
    while True:
        try:
            turns = await queued_turns(bus)
        except PallasError as error:
            log.debug("cannot measure the queue", extra={"reason": error.message})
            metrics.teams_read({})
        else:
            metrics.teams_read(slots_wanted(turns, folders.limits, published))
        await asyncio.sleep(interval)


def slots_wanted(
    turns: Mapping[tuple[str, str], int], teams: Mapping[str, Limits], published: Container[str]
) -> dict[str, int]:
    """The number of slots that each team in `teams` needs for the turns that wait or run, by team.

    An agent needs no more slots than its limit. A turn of an agent that the folder does not have needs none, since no
    worker can execute it. An agent that has no definition yet needs one: only a worker can publish it, and nobody can
    call it before.
    """
    return {team: sum(_wanted(team, agents, turns, published)) for team, agents in teams.items()}


def _wanted(team: str, agents: Limits, turns: Mapping[tuple[str, str], int], published: Container[str]) -> list[int]:
    wanted: list[int] = []
    for agent, limit in agents.items():
        queued = max(turns.get((team, agent), 0), f"{team}.{agent}" not in published)
        wanted.append(queued if limit is None else min(queued, limit))
    return wanted
