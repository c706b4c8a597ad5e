"""The tasks of each agent, numbered from 1. Those that have ended are in a bucket, the one that has not in its entry.

A task is written to the bucket before its agent is free for the next one.
"""

import asyncio
from dataclasses import dataclass
from itertools import batched
from math import ceil

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import delete, get_some, put
from pallas_contracts.catalog import FLEET_TASKS
from pallas_contracts.fleet import FleetAgent, FleetTask

_AT_ONCE = 100
_LATEST = 100
_MARKED_SECONDS = 3600.0


@dataclass(frozen=True)
class Page:
    """A page of a history, the latest task first. Pages are counted from 1."""

    tasks: tuple[FleetTask, ...]
    total: int
    page: int
    size: int

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return ceil(self.total / self.size)


class Tasks:
    """Histories of agents."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def ended(self, agent: FleetAgent, task: FleetTask) -> None:
        """Write a task that has ended. Writing it again is no error.

        Raises:
            Unavailable: the broker does not answer.
        """
        await put(self._bus, FLEET_TASKS, task, workspace=agent.workspace_id, number=str(task.number))

    async def find(self, agent: FleetAgent, number: int) -> FleetTask | None:
        """A task that has ended.

        Raises:
            Unavailable: the broker does not answer.
        """
        found = await self._read(agent, range(number, number + 1))
        return found.get(number)

    async def of_turn(self, agent: FleetAgent, turn_id: str) -> FleetTask | None:
        """The task of a turn: the one that the agent has, or one of the latest that have ended.

        Raises:
            Unavailable: the broker does not answer.
        """
        if agent.task is not None and agent.task.turn_id == turn_id:
            return agent.task
        page = await self.page(agent, 1, _LATEST)
        return next((task for task in page.tasks if task.turn_id == turn_id), None)

    async def page(self, agent: FleetAgent, page: int, size: int) -> Page:
        """A page of an agent's tasks: at most `size` reads by key, however long the history is.

        Raises:
            Unavailable: the broker does not answer.
        """
        newest = agent.tasks - (page - 1) * size
        numbers = range(max(newest - size, 0) + 1, newest + 1)
        ended = await self._read(agent, numbers)
        if (task := agent.task) is not None and task.number in numbers:
            ended.setdefault(task.number, task)
        tasks = tuple(ended[number] for number in reversed(numbers) if number in ended)
        return Page(tasks, agent.tasks, page, size)

    async def forget(self, agent: FleetAgent) -> None:
        """Remove all tasks of an agent.

        Raises:
            Unavailable: the broker does not answer.
        """
        for some in batched(range(1, agent.tasks + 1), _AT_ONCE, strict=False):
            await asyncio.gather(*(self._delete(agent, number) for number in some))

    async def _delete(self, agent: FleetAgent, number: int) -> None:
        await delete(self._bus, FLEET_TASKS, marked=_MARKED_SECONDS, workspace=agent.workspace_id, number=str(number))

    async def _read(self, agent: FleetAgent, numbers: range) -> dict[int, FleetTask]:
        wanted = [{"workspace": agent.workspace_id, "number": str(number)} for number in numbers]
        return {task.number: task for task in await get_some(self._bus, FLEET_TASKS, wanted)}
