"""`wait_agent_task`, which is not in the contract: waits until an agent's task has ended, and brings its questions."""

from dataclasses import dataclass

from fleet.handlers.start_task import LONGEST_DESCRIPTION, StartTask
from fleet.handlers.typed_text import check_text
from fleet.seeing.fleet import Fleet
from fleet.storing.agents import Agents
from fleet.storing.ending import FINAL
from fleet.storing.tasks import Tasks
from fleet.times import task_id, task_view
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.turns import InputRequired
from pallas_executor.agent_runtime import Turn

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
