"""The end of a task: decided once, then written to the history, and only then is the agent free."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fleet.storing.agents import Agents
from fleet.storing.tasks import Tasks
from pallas_contracts.bounds import line
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.message import utc_now

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
