"""What reads and changes nothing: agents, projects, and the history of an agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from fleet.names import task_view, timestamp
from fleet.running.finding import new_agent
from fleet.seeing.fleet import Fleet
from fleet.seeing.status import AgentStatus, find_project, project_view, role_view, usable
from fleet.storing.tasks import Page, Tasks
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.fleet import FleetAgent, FleetTask
from pallas_contracts.turns import Principal

SPEC = "fleet_mcp_agent_spec"
"""The metadata that every agent has."""

_SPEC_KEY = "agent_spec"


def metadata_names(pairs: tuple[str, ...]) -> dict[str, str]:
    """The names of metadata for callers by Coder's keys. `pairs` are `KEY=NAME`.

    Raises:
        Rejected: one is not.
    """
    names = dict[str, str]()
    for pair in pairs:
        key, equals, name = (part.strip() for part in pair.partition("="))
        if not (key and equals and name):
            raise Rejected(f"PALLAS_FLEET_METADATA: {pair!r} is not KEY=NAME", code="bad_settings")
        names[key] = name
    return names


def agent_view(
    entry: FleetAgent,
    workspace: Workspace,
    status: AgentStatus = "idle",
    current_task: str | None = None,
    metadata: Mapping[str, str] | None = None,
    last: FleetTask | None = None,
) -> JsonObject:
    """An agent as callers see it. Without a status it is one that was made just now. `last` is its latest task."""
    spec = entry.spec
    return {
        "name": entry.name,
        "workspace_id": workspace.id,
        "status": status,
        "role": entry.role,
        "project": entry.project,
        "spec": spec,
        "current_task": current_task,
        "created_at": timestamp(workspace.created_at),
        "updated_at": timestamp(_updated(last or entry.task, workspace)),
        "metadata": {SPEC: spec} | dict(metadata or {}),
    }


def _updated(task: FleetTask | None, workspace: Workspace) -> datetime:
    moments = [workspace.created_at, workspace.updated_at]
    if task is not None:
        moments += filter(None, (task.created_at, task.started_at, task.completed_at))
    return max(moments)


@dataclass(frozen=True)
class ShowAgent:
    """Shows agents. `names` has the names of metadata by Coder's keys."""

    fleet: Fleet
    coder: Coder
    tasks: Tasks
    names: Mapping[str, str]

    async def show(self, name: str, caller: Principal) -> JsonObject:
        """Show an agent.

        Raises:
            NotFound: there is no such agent.
            Unavailable: Coder or the broker does not answer.
        """
        seen = await self.fleet.find(name, caller)
        found = await self.coder.metadata(seen.workspace) if seen.workspace.running else {}
        entry = seen.entry or new_agent(seen.name, seen.workspace)
        if not entry.spec:
            spec = await self.coder.prompt(seen.workspace) or found.get(_SPEC_KEY, "")
            entry = entry.model_copy(update={"spec": spec})
        metadata = {self.names[key]: value for key, value in found.items() if key in self.names}
        last = entry.task or (await self.tasks.find(entry, entry.tasks) if entry.tasks else None)
        return {"agent": agent_view(entry, seen.workspace, seen.status, seen.current_task, metadata, last)}


async def list_agents(fleet: Fleet, caller: Principal) -> JsonObject:
    """The agents of a caller by name.

    Raises:
        Unavailable: Coder does not answer.
    """
    seen = await fleet.of(caller)
    agents = [{"name": each.name, "status": each.status, "current_task": each.current_task} for each in seen]
    return {"agents": agents, "total_count": len(agents)}


async def list_projects(coder: Coder) -> JsonObject:
    """All projects by name.

    Raises:
        Unavailable: Coder does not answer.
    """
    return {"projects": [project_view(template) for template in usable(await coder.templates())]}


async def list_roles(coder: Coder, project: str) -> JsonObject:
    """The roles that agents of a project can have.

    Raises:
        NotFound: there is no such project.
        Rejected: several projects may be meant.
        Unavailable: Coder does not answer.
    """
    template = find_project(await coder.templates(), project)
    return {"roles": [role_view(role) for role in await coder.roles(template)]}


DEFAULT_SIZE = 20
LARGEST_SIZE = 100


@dataclass(frozen=True)
class ShowHistory:
    """Shows histories."""

    fleet: Fleet
    tasks: Tasks

    async def show(self, name: str, caller: Principal, page: int = 1, size: int = DEFAULT_SIZE) -> JsonObject:
        """A page of an agent's history; `size` is clamped. A page behind the last one is empty.

        Raises:
            Rejected: pages are counted from 1.
            NotFound: there is no such agent.
            Unavailable: Coder or the broker does not answer.
        """
        if page < 1:
            raise Rejected("page must be at least 1.", field="page")
        size = min(max(size, 1), LARGEST_SIZE)
        entry = (await self.fleet.find(name, caller)).entry
        found = await self.tasks.page(entry, page, size) if entry is not None else Page((), 0, page, size)
        return {
            "tasks": [task_view(task) for task in found.tasks],
            "total_count": found.total,
            "page": page,
            "page_size": size,
            "total_pages": found.pages,
        }
