"""`start_agent_task`: gives an agent a task, if it has none."""

from dataclasses import dataclass

from fleet.handlers.typed_text import check_text
from fleet.running.finding import FindTask, new_agent, summary_of, with_task
from fleet.running.requests import submit_task, task_ref, task_request
from fleet.running.stopping import StopTask
from fleet.seeing.fleet import Fleet, Seen
from fleet.sources import Sources
from fleet.storing.ending import FINAL
from fleet.times import task_id, task_view, timestamp
from pallas_bus.turnlog.claims import stored_outcome
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Conflict, Rejected, Unavailable
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.ids import child_id
from pallas_executor.agent_runtime import Turn

PATIENCE = 20.0
"""Seconds in which the prompt has to be typed."""

LONGEST_DESCRIPTION = 262_144


@dataclass(frozen=True)
class StartTask:
    """Starts tasks."""

    fleet: Fleet
    stopping: StopTask
    finding: FindTask
    sources: Sources

    async def start(self, turn: Turn, name: str, description: str) -> JsonObject:
        """Start a task in the turn of a call, and return once its prompt is typed.

        Raises:
            NotFound: there is no such agent.
            Rejected: the description cannot be typed, or the agent is offline.
            Conflict: the agent has a task; the facts `task_id` and `since` say which.
            Unavailable: Coder or the agent's terminal does not answer.
        """
        check_text("task_description", description, LONGEST_DESCRIPTION)
        seen = await self.fleet.find(name)
        turn_id = child_id(turn.turn_id, "task")
        entry = await self._take(turn, seen, turn_id, description)
        task = entry.task
        assert task is not None
        request = task_request(
            entry,
            description,
            principal=turn.principal,
            client=turn.client,
            parent=turn.turn_id,
            depth=turn.depth + 1,
        )
        await submit_task(self.stopping.bus, request)
        task = await self._typed(entry, task)
        shown = task_view(task)
        keys = ("id", "agent_name", "summary", "created_at")
        return {
            "task": {key: shown[key] for key in keys}
            | {"status": "running", "started_at": timestamp(task.started_at or task.created_at)},
            "agent_status": "busy",
            "message": f"Task started on agent '{seen.name}'",
        }

    async def _take(self, turn: Turn, seen: Seen, turn_id: str, description: str) -> FleetAgent:
        """The agent's entry with the task of this turn, which an earlier attempt may have put there."""
        known = self.stopping.agents.of(seen.name, seen.workspace.id)
        if known is not None and known.task is not None and known.task.status in FINAL:
            await self.stopping.ending.release(known)  # whoever ended it was lost before
        mine = known is not None and known.task is not None and known.task.turn_id == turn_id
        if not mine:
            if turn.attempt > 1 and await stored_outcome(self.stopping.bus, task_ref(turn_id)) is not None:
                raise Conflict(f"The task that this call started on agent '{seen.name}' has ended already.")
            if seen.status == "offline":
                raise Rejected(f"Agent '{seen.name}' is offline: {seen.why_offline}.", agent_status="offline")
            if seen.status == "busy" and (known is None or known.task is None):
                known = await self.finding.find(seen.workspace) or known
        source = self.sources.of(turn)

        def taken(entry: FleetAgent | None) -> FleetAgent:
            if entry is None or entry.workspace_id != seen.workspace.id:
                entry = new_agent(seen.name, seen.workspace)
            if entry.task is not None or entry.deleting:
                return entry
            return with_task(entry, turn_id, summary_of(description), source)

        entry = await self.stopping.agents.change(seen.name, taken)
        assert entry is not None
        if entry.task is None:
            raise Conflict(f"Agent '{seen.name}' is being deleted.")
        if entry.task.turn_id != turn_id:
            raise _has_a_task(entry.task)
        return entry

    async def _typed(self, entry: FleetAgent, task: FleetTask) -> FleetTask:
        """The task once its prompt is typed."""

        def begun(now: FleetAgent | None) -> bool:
            mine = now.task if now is not None else None
            return mine is None or mine.turn_id != task.turn_id or mine.status != "pending"

        agents = self.stopping.agents
        if not await agents.until(entry.name, begun, PATIENCE):
            await self.stopping.stop(entry, "its prompt could not be typed in time")
            raise Unavailable(f"Agent '{entry.name}' did not take the task within {PATIENCE:g} s.")
        now = agents.of(entry.name, entry.workspace_id)
        mine = now.task if now is not None and now.task is not None and now.task.turn_id == task.turn_id else None
        if mine is None:
            mine = await self.stopping.ending.tasks.find(entry, task.number)
        if mine is None or mine.started_at is None:
            why = (mine.reason if mine is not None else None) or "it was given up"
            raise Unavailable(f"The task could not be started on agent '{entry.name}': {why.rstrip('.')}.")
        return mine


def _has_a_task(task: FleetTask) -> Conflict:
    since = timestamp(task.started_at or task.created_at)
    return Conflict(
        f"Agent '{task.agent}' already has a running task, since {since}: {task.summary}",
        task_id=task_id(task.turn_id),
        since=since,
    )
