"""`wait_agent_task`, which is not in the contract: waits until an agent's task has ended."""

from dataclasses import dataclass

from fleet.seeing.fleet import Fleet
from fleet.storing.agents import Agents
from fleet.storing.ending import FINAL
from fleet.storing.tasks import Tasks
from fleet.times import task_id, task_view
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.fleet import FleetAgent

LONGEST = 50.0
DEFAULT = 30.0
_LATEST = 100
"""How many of the latest tasks are looked at for one that has ended."""


@dataclass(frozen=True)
class WaitTask:
    """Waits for tasks."""

    fleet: Fleet
    agents: Agents
    tasks: Tasks

    async def wait(self, name: str, wanted: str | None, seconds: float) -> JsonObject:
        """Wait for a task, by default the one that the agent has, or had last.

        Raises:
            NotFound: there is no such agent, or it has no such task.
            Unavailable: Coder or the broker does not answer.
        """
        seen = await self.fleet.find(name)
        entry = seen.entry
        if entry is not None and entry.task is not None and wanted in (None, task_id(entry.task.turn_id)):
            turn_id, wanted = entry.task.turn_id, task_id(entry.task.turn_id)
            await self.agents.until(entry.name, lambda now: not _has(now, turn_id), min(max(seconds, 0), LONGEST))
            entry = await self.agents.read(entry.name)
        page = await self.tasks.page(entry, 1, _LATEST) if entry is not None else None
        for task in page.tasks if page is not None else ():
            if wanted in (None, task_id(task.turn_id)):
                ended = task.status in FINAL
                return {"task": task_view(task), "ended": ended, "reason": task.reason, "asks": task.asks}
        raise NotFound(f"Agent '{seen.name}' has no such task.", task_id=wanted)


def _has(entry: FleetAgent | None, turn_id: str) -> bool:
    return entry is not None and entry.task is not None and entry.task.turn_id == turn_id
