"""`wait_agent_task`, which is not in the contract; `stop_agent_task`; and the transcript of a task."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.coder.client import Coder
from fleet.handlers.start_task import LONGEST_DESCRIPTION, StartTask, check_text
from fleet.names import task_id, task_view, timestamp
from fleet.running.finding import FindTask, summary_of
from fleet.running.stopping import STOP_SECONDS, StopTask
from fleet.seeing.fleet import Fleet
from fleet.storing.agents import Agents
from fleet.storing.tasks import FINAL, Tasks
from fleet.terminal.agent_api import Said
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound, Rejected, Unavailable
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.turns import InputRequired, Principal
from pallas_turns.runtime import Turn

LONGEST = 50.0
DEFAULT = 30.0
LATEST = 100
"""How many of the latest tasks of an agent are looked at for one that has ended."""

_ANSWER = "answer"
_FORM = {"type": "object", "properties": {_ANSWER: {"type": "string", "title": "Answer"}}, "required": [_ANSWER]}


@dataclass(frozen=True)
class WaitTask:
    """Waits for tasks."""

    fleet: Fleet
    agents: Agents
    tasks: Tasks
    starting: StartTask

    async def wait(self, turn: Turn, name: str, wanted: str | None, seconds: float) -> JsonObject | InputRequired:
        """Wait for a task, by default the one that the agent has, or had last.

        A caller that can be asked gets the question of an agent that waits for an answer. The call that brings the
        answer returns the task that it has become.

        Raises:
            NotFound: there is no such agent, or it has no such task.
            Rejected: the answer cannot be typed, or the agent is offline.
            Conflict: the question is answered already.
            Unavailable: Coder, the broker or the agent's terminal does not answer.
        """
        if (answer := _answer(turn)) is not None and turn.request_state is not None:
            answer = check_text(_ANSWER, answer, LONGEST_DESCRIPTION)
            _, asked = await self._find(turn, name, turn.request_state, 0.0)
            return _view(await self.starting.give(turn, name, answer, behind=asked.number))
        entry, task = await self._find(turn, name, wanted, seconds)
        if turn.input_responses is None and turn.client.fills_in_forms and await self._waits(turn, entry, task):
            return _question(task)
        return _view(task)

    async def _find(self, turn: Turn, name: str, wanted: str | None, seconds: float) -> tuple[FleetAgent, FleetTask]:
        """The task, as soon as it has ended."""
        seen = await self.fleet.find(name, turn.principal)
        entry = seen.entry
        if entry is not None and entry.task is not None and wanted in (None, task_id(entry.task.turn_id)):
            turn_id, wanted = entry.task.turn_id, task_id(entry.task.turn_id)
            await self.agents.until(entry.name, lambda now: not _has(now, turn_id), min(max(seconds, 0), LONGEST))
            entry = await self.agents.read(entry.name)
        if entry is not None:
            for task in (await self.tasks.page(entry, 1, LATEST)).tasks:
                if wanted in (None, task_id(task.turn_id)):
                    return entry, task
        raise NotFound(f"Agent '{seen.name}' has no such task.", task_id=wanted)

    async def _waits(self, turn: Turn, entry: FleetAgent, task: FleetTask) -> bool:
        """Whether the agent still waits for the answer to what it asked in a task."""
        asks = task.asks is not None and task.status == "completed" and task.number == entry.tasks
        return asks and (await self.fleet.find(entry.name, turn.principal)).status == "idle"


def _answer(turn: Turn) -> str | None:
    match (turn.input_responses or {}).get(_ANSWER):
        case {"action": "accept", "content": {"answer": str(text)}}:
            return text
        case _:
            return None


def _question(task: FleetTask) -> InputRequired:
    params = {"mode": "form", "message": f"Agent '{task.agent}' asks: {task.asks}", "requestedSchema": _FORM}
    request = {"method": "elicitation/create", "params": params}
    return InputRequired(input_requests={_ANSWER: request}, request_state=task_id(task.turn_id))


def _view(task: FleetTask) -> JsonObject:
    return {"task": task_view(task), "ended": task.status in FINAL, "reason": task.reason, "asks": task.asks}


def _has(entry: FleetAgent | None, turn_id: str) -> bool:
    return entry is not None and entry.task is not None and entry.task.turn_id == turn_id


@dataclass(frozen=True)
class StopAgent:
    """Stops tasks, also those that somebody else has given the agent."""

    fleet: Fleet
    stopping: StopTask
    finding: FindTask

    async def stop(self, name: str, caller: Principal) -> JsonObject:
        """Stop the running task of an agent.

        Raises:
            NotFound: there is no such agent, or it has no running task.
            Rejected: the agent is offline, so it is not busy.
            Unavailable: Coder or the agent's terminal does not answer.
        """
        seen = await self.fleet.find(name, caller)
        entry = self.stopping.agents.of(seen.name, seen.workspace.id)
        if entry is None or entry.task is None:
            if seen.status == "offline":
                raise Rejected(
                    f"Agent '{seen.name}' is not currently busy: it is offline ({seen.why_offline}).",
                    agent_status="offline",
                )
            entry = await self.finding.find(seen.workspace) if seen.status == "busy" else None
        if entry is None or entry.task is None:
            raise NotFound(f"Agent '{seen.name}' has no running task; it is idle.", agent_status="idle")
        task = await self.stopping.stop(entry, "stopped by stop_agent_task")
        if task is None and self.stopping.agents.of(seen.name, seen.workspace.id) is None:
            raise NotFound(f"Agent '{seen.name}' does not exist.", agent_name=seen.name)
        if task is None:
            raise Unavailable(
                f"The task of agent '{seen.name}' has not ended within {STOP_SECONDS:g} s. It is stopped as soon as "
                "the agent's terminal answers."
            )
        if task.status != "stopped":
            raise NotFound(f"Agent '{seen.name}' has no running task: the last one has just {task.status}.")
        message = "Task stopped successfully"
        if task.reason is not None:
            message += f", but the agent may go on: {task.reason}"
        shown = task_view(task)
        shown["started_at"] = shown["started_at"] or shown["created_at"]
        return {"task": shown, "agent_status": "idle", "message": message}


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
