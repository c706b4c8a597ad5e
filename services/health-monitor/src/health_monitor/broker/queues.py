"""What waits in the queues: turns by agent, messages by stream, and the slots that the workers of each team need.

An autoscaler follows that one figure per team. It is read from the queue itself, not from consumers, so it includes
turns of agents that no worker has hosted yet. While the broker does not answer there are no series: the last values
would look as if all were well.
"""

import asyncio
import logging
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from health_monitor.metrics import Metrics
from health_monitor.team_folders import TeamFolders
from pallas_bus.connection import Bus
from pallas_contracts.catalog import STREAMS
from pallas_contracts.errors import PallasError, Unavailable
from pallas_turns.queue import queue_depths, queued_turns, stream_depths, turns_by_caller

log = logging.getLogger(__name__)

INTERVAL = 5.0
"""Seconds between two measurements."""


async def measure_depths(bus: Bus, agents: Container[str], metrics: Metrics) -> None:
    """Measure for ever. Queues of agents that are not among `agents` (`{team}.{agent}`) have no metrics."""
    while True:
        try:
            queues, streams = await queue_depths(bus), await stream_depths(bus, STREAMS)
        except PallasError as error:
            log.debug("cannot measure depths", extra={"reason": error.message})
            queues, streams = {}, {}
        metrics.queues_read({key: depth for key, depth in queues.items() if ".".join(key) in agents})
        metrics.streams_read(streams)
        await asyncio.sleep(INTERVAL)


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


@dataclass(frozen=True, slots=True)
class TurnQueue:
    """The queue on `bus`. A turn leaves the stream when it has ended, so the turns in it wait or run."""

    bus: Bus
    _since: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    async def waiting_since(self, team: str, agent: str) -> float | None:
        """When turns of the agent were first seen, in seconds since the epoch; None without turns or without broker."""
        try:
            waiting = await turns_by_caller(self.bus, team, agent)
        except Unavailable:
            return None
        if waiting:
            return self._since.setdefault((team, agent), time.time())
        self._since.pop((team, agent), None)
        return None
