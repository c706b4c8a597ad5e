"""Finds work of agents that is no task yet, and makes it one, which is watched and can be stopped like any other."""

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from fleet.names import agent_name
from fleet.running.typing import submit_task, task_request
from fleet.storing.agents import Agents
from fleet.terminal.agent_api import Said
from pallas_bus.connection import Bus
from pallas_contracts.fleet import FleetAgent, FleetTask, TaskSource
from pallas_contracts.ids import child_id
from pallas_contracts.message import utc_now

LONGEST_SUMMARY = 160


def summary_of(text: str) -> str:
    """The first line of a description, in at most `LONGEST_SUMMARY` characters."""
    first = next((it.strip() for it in text.splitlines() if it.strip()), "")
    return first if len(first) <= LONGEST_SUMMARY else f"{first[: LONGEST_SUMMARY - 1]}…"


def prompt_of(task: FleetTask, said: Iterable[Said], after: int) -> Said | None:
    """The message behind `after` that is the prompt of a task, of which only the summary is known."""
    typed = (it for it in said if it.role == "user" and it.id > after)
    return next((it for it in typed if summary_of(it.text) == task.summary), None)


@dataclass(frozen=True)
class FindTask:
    """Looks at terminals."""

    bus: Bus
    coder: Coder
    agents: Agents
    prefix: str

    async def find(self, workspace: Workspace) -> FleetAgent | None:
        """Make a task of what an agent does. Returns its entry; None: it does nothing, or has a task already.

        Raises:
            Unavailable: the terminal (`terminal_unavailable`) or the broker does not answer.
        """
        name = agent_name(workspace.name, self.prefix)
        known = self.agents.of(name, workspace.id)
        if known is not None and (known.task is not None or known.deleting):
            return None
        terminal = self.coder.terminal(workspace)
        if terminal is None or await terminal.status() != "running":
            return None
        said = await terminal.messages()
        if not said:
            return None
        had = known.tasks if known is not None else 0
        turn_id = child_id(workspace.id, f"found/{had}/{said[-1].id}")

        def found(entry: FleetAgent | None) -> FleetAgent:
            if entry is None or entry.workspace_id != workspace.id:
                entry = new_agent(name, workspace)
            if entry.task is not None or entry.deleting or entry.tasks != had:  # it worked on a task, perhaps
                return entry
            typed = [it for it in said if it.role == "user" and it.id > entry.heard]
            source: TaskSource = "human" if typed else "agent"
            return with_task(entry, turn_id, summary_of(typed[-1].text) if typed else "works on its own", source)

        entry = await self.agents.change(name, found)
        if entry is not None and entry.task is not None and entry.task.turn_id == turn_id:
            await submit_task(self.bus, task_request(entry))  # the turn of another task is submitted with its prompt
        return entry


def new_agent(name: str, workspace: Workspace, *, role: str = "coder", spec: str = "") -> FleetAgent:
    """The entry of an agent of which only the workspace is known."""
    return FleetAgent(
        name=name,
        workspace_id=workspace.id,
        role=role,
        project=workspace.template_display_name or workspace.template_name,
        spec=spec,
        created_at=workspace.created_at,
    )


def with_task(entry: FleetAgent, turn_id: str, summary: str, source: TaskSource) -> FleetAgent:
    """The entry with a task, the next in number, that is still to be begun."""
    task = FleetTask(
        turn_id=turn_id,
        number=entry.tasks + 1,
        agent=entry.name,
        summary=summary,
        status="pending",
        source=source,
        created_at=utc_now(),
    )
    return entry.model_copy(update={"task": task, "tasks": task.number})
