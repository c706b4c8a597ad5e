"""The tasks of each agent, numbered from 1. Those that have ended are in a bucket, the one that has not in its entry.

A task is written to the bucket before its agent is free for the next one.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from math import ceil
from typing import Literal

from fleet.storing.agents import Agents
from pallas_bus.connection import Bus
from pallas_bus.kv import delete, get_some, put
from pallas_contracts.bounds import line
from pallas_contracts.catalog import FLEET_TASKS
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.message import utc_now

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


FINAL = frozenset({"completed", "failed", "stopped"})


@dataclass(frozen=True)
class End:
    """How a task ended. `heard` is the id of the newest message of the conversation, if it is known.

    `began` and `message` are when its prompt was typed and the id of its message, if that was not recorded before.
    """

    status: Literal["completed", "failed", "stopped"]
    reason: str | None = None
    asks: str | None = None
    heard: int | None = None
    began: datetime | None = None
    message: int | None = None


@dataclass(frozen=True)
class Ending:
    """Ends tasks. Each step can be repeated by whoever finds it undone."""

    agents: Agents
    tasks: Tasks

    async def end(self, name: str, turn_id: str, end: End) -> FleetTask | None:
        """End the task of this turn, unless it has ended. Returns it as it ended; None: the agent has another one.

        Raises:
            Unavailable: the broker does not answer.
        """
        entry = await self.agents.change(name, lambda entry: _decided(entry, turn_id, end))
        if entry is None or entry.task is None or entry.task.turn_id != turn_id:
            return None
        await self.release(entry)
        return entry.task

    async def release(self, entry: FleetAgent) -> None:
        """Write the task of an entry, which is decided, to the history, and free its agent.

        Raises:
            Unavailable: the broker does not answer.
        """
        task = entry.task
        assert task is not None
        await self.tasks.ended(entry, task)
        left = await self.agents.change(
            entry.name, lambda now: now.model_copy(update={"task": None}) if now and now.task == task else now
        )
        if left is None or left.workspace_id != entry.workspace_id:  # deleted meanwhile, with its history
            await self.tasks.forget(entry)


def _decided(entry: FleetAgent | None, turn_id: str, end: End) -> FleetAgent | None:
    if entry is None or (task := entry.task) is None or task.turn_id != turn_id or task.status in FINAL:
        return entry
    now = utc_now()
    update = {
        "status": end.status,
        "completed_at": now,
        "reason": end.reason and line(end.reason),
        "asks": end.asks and line(end.asks),
    }
    if task.started_at is None and end.began is not None:  # by the terminal's clock
        update |= {"started_at": min(max(end.began, task.created_at), now), "message": end.message}
    ended = task.model_copy(update=update)
    heard = max(it for it in (entry.heard, end.heard, ended.message) if it is not None)
    return entry.model_copy(update={"task": ended, "heard": heard})
