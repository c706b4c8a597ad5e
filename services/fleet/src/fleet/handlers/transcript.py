"""What was said in a task: the part of the conversation in the agent's terminal that begins with its prompt."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.coder.client import Coder
from fleet.running.finding import summary_of
from fleet.seeing.fleet import Fleet
from fleet.storing.agents import Agents
from fleet.storing.tasks import Tasks
from fleet.terminal.agent_api import Said
from fleet.times import task_view, timestamp
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.turns import Principal

_LATEST = 100
"""How many tasks of each agent are looked at."""


@dataclass(frozen=True)
class Transcript:
    """Reads what was said in tasks. It is kept nowhere else, so it ends with the workspace's terminal."""

    fleet: Fleet
    coder: Coder
    agents: Agents
    tasks: Tasks

    async def read(self, wanted: str, caller: Principal) -> JsonObject:
        """A task and its messages. There are none if the terminal is off, or its conversation began anew since.

        Raises:
            NotFound: there is no such task among the latest of any agent.
            Unavailable: Coder, the broker or the terminal does not answer.
        """
        entry, task = await self._find(wanted, caller)
        workspace = (await self.fleet.find(entry.name, caller)).workspace
        terminal = self.coder.terminal(workspace) if workspace.running else None
        said = messages_of(task, await terminal.messages()) if terminal is not None else []
        return {
            "task": task_view(task),
            "reason": task.reason,
            "asks": task.asks,
            "messages": [{"role": it.role, "text": it.text, "at": timestamp(it.at)} for it in said],
        }

    async def _find(self, wanted: str, caller: Principal) -> tuple[FleetAgent, FleetTask]:
        try:
            turn_id = uuid.UUID(wanted).hex
        except ValueError:
            turn_id = ""
        entry = self.agents.with_task(turn_id)
        may_use = self.fleet.owners.may_use
        if entry is not None and entry.task is not None and may_use(caller, entry):
            return entry, entry.task
        entries = [it for it in self.agents.all() if may_use(caller, it)] if turn_id else []
        pages = await asyncio.gather(*(self.tasks.page(entry, 1, _LATEST) for entry in entries))
        for entry, page in zip(entries, pages, strict=True):
            for task in page.tasks:
                if task.turn_id == turn_id:
                    return entry, task
        raise NotFound(f"There is no task '{wanted[:64]}'.", task_id=wanted)


def messages_of(task: FleetTask, said: Sequence[Said]) -> list[Said]:
    """The messages of a task: its prompt, and what follows up to the next one. Ids begin anew with each terminal."""
    prompts = [it for it in said if it.role == "user"]
    mine = [it.id for it in prompts if task.started_at and summary_of(it.text) == task.summary and _can_be(task, it)]
    if not mine:
        return []
    after = next((it.id for it in prompts if it.id > mine[-1]), None)
    return [it for it in said if it.id >= mine[-1] and (after is None or it.id < after)]


def _can_be(task: FleetTask, prompt: Said) -> bool:
    """Whether a prompt is that of a task. Of one that was typed in Coder only the time is known."""
    if task.message is not None:
        return prompt.id == task.message
    return task.completed_at is None or prompt.at <= task.completed_at
