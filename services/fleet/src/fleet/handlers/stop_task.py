"""`stop_agent_task`: stops what an agent does."""

from dataclasses import dataclass

from fleet.running.finding import FindTask
from fleet.running.stopping import STOP_SECONDS, StopTask
from fleet.seeing.fleet import Fleet
from fleet.times import task_view
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound, Rejected, Unavailable
from pallas_contracts.turns import Principal


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
