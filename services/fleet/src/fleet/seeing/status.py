"""The status of an agent (`fleet-mcp-tools.md`, "Status Enums"), as its terminal tells it. Projects and roles."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from fleet.coder.client import Coder
from fleet.coder.model import Role, Template, Workspace
from fleet.names import cut, slug
from fleet.storing.tasks import FINAL
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound, Rejected, Unavailable
from pallas_contracts.fleet import FleetAgent, FleetTask

SECONDS = 2.0
"""How old an answer may be."""

_PATIENCE = 1.0
_AT_ONCE = 20

type Working = Literal["running", "stable"] | None
"""None: the terminal does not answer."""


class Terminals:
    """The latest answers by workspace."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._known: dict[str, tuple[float, Working]] = {}
        self._asking: dict[str, asyncio.Task[Working]] = {}

    async def working(self, workspace: Workspace) -> Working:
        """What the terminal of a workspace said at most `SECONDS` ago."""
        at, said = self._known.get(workspace.id, (float("-inf"), None))
        if at > time.monotonic() - SECONDS:
            return said
        asking = self._asking.get(workspace.id)
        if asking is None:
            asking = self._asking[workspace.id] = asyncio.create_task(self._ask(workspace))
        return await asyncio.shield(asking)

    def forget(self, workspace_id: str) -> None:
        """Its task has begun or ended: the next answer is to be given after this."""
        self._known.pop(workspace_id, None)
        self._asking.pop(workspace_id, None)

    def keep(self, workspaces: set[str]) -> None:
        """Forget all others."""
        for gone in self._known.keys() - workspaces:
            del self._known[gone]

    async def _ask(self, workspace: Workspace) -> Working:
        mine, began, said = asyncio.current_task(), time.monotonic(), None
        try:
            async with self._room, asyncio.timeout(_PATIENCE):
                terminal = self._coder.terminal(workspace)
                said = await terminal.status() if terminal is not None else None
        except (Unavailable, TimeoutError):
            said = None
        if self._asking.get(workspace.id) is mine:
            del self._asking[workspace.id]
            self._known[workspace.id] = began, said
        return said


type AgentStatus = Literal["busy", "idle", "offline"]


def why_offline(workspace: Workspace) -> str | None:
    """Why an agent cannot work; None: it can."""
    if workspace.running:
        ended = "its coding agent has ended or does not answer; restart its workspace in Coder"
        return ended if workspace.ended else None
    job, under_way = workspace.job_status, workspace.job_status in ("pending", "running")
    match workspace.transition:
        case "start" if job == "failed":
            return f"its workspace could not be provisioned: {workspace.job_error or 'Coder does not say why'}"
        case "start" if job in ("canceled", "canceling"):
            return "the start of its workspace was cancelled"
        case "start" if under_way:
            return "its workspace is starting"
        case "start":
            return _not_ready(workspace)
        case "delete":
            return "its workspace is being deleted" if under_way else "the deletion of its workspace has failed"
        case _:
            return "its workspace is stopping" if under_way else "its workspace is stopped"


def _not_ready(workspace: Workspace) -> str:
    if not workspace.agents:
        return "its workspace has no agent of Coder"
    agent = workspace.agents[0]
    if agent.status != "connected":
        return f"the agent of its workspace is {agent.status}"
    return workspace.not_started or f"its workspace is not ready ({agent.lifecycle})"


def task_of(entry: FleetAgent | None) -> FleetTask | None:
    """The task that has not ended."""
    task = entry.task if entry is not None else None
    return task if task is not None and task.status not in FINAL else None


def has_to_be_asked(workspace: Workspace, entry: FleetAgent | None) -> bool:
    """Whether only its terminal can say what an agent does."""
    return workspace.running and task_of(entry) is None


def fold(workspace: Workspace, entry: FleetAgent | None, working: Working) -> tuple[AgentStatus, str | None]:
    """The status of an agent and what it works on. A terminal that does not answer leaves it to what Coder says."""
    task, reported = task_of(entry), workspace.reported
    ended = workspace.ended and working is None
    reports = reported is not None and reported.state == "working" and not ended
    busy = task is not None or working == "running" or (working is None and reports)
    off = not workspace.running or (ended and task is None)
    status = "offline" if off else "busy" if busy else "idle"
    if task is not None:
        return status, task.summary
    return status, (reported.message or None) if reported is not None and reports and status == "busy" else None


DEFAULT_ROLE = "coder"


def usable(templates: Sequence[Template]) -> list[Template]:
    """The templates that are projects, by name."""
    kept = [template for template in templates if not template.deprecated]
    return sorted(kept, key=lambda template: project_name(template).lower())


def project_name(template: Template) -> str:
    """The name of a project."""
    return template.display_name or template.name


def project_view(template: Template) -> JsonObject:
    """A project as callers see it."""
    name = project_name(template)
    return {
        "name": name,
        "display_name": name,
        "description": template.description,
        "template_id": template.id,
        "template_name": template.name,
    }


def find_project(templates: Sequence[Template], wanted: str) -> Template:
    """The project of this name: its own name, that of its template, either as a slug, or the beginning of one.

    Raises:
        NotFound: there is none.
        Rejected: several have it.
    """
    known, given = usable(templates), wanted.strip().lower()
    levels: list[Callable[[Template], bool]] = [
        lambda it: project_name(it).lower() == given,
        lambda it: it.name.lower() == given,
        lambda it: slug(wanted) in (slug(project_name(it)), slug(it.name)),
        lambda it: any(name.lower().startswith(given) for name in (project_name(it), it.name)),
    ]
    for fits in levels if slug(given) else ():
        match [template for template in known if fits(template)]:
            case []:
                continue
            case [template]:
                return template
            case several:
                names = ", ".join(template.name for template in several)
                raise Rejected(f"project '{cut(wanted)}' is ambiguous; it may be one of: {names}.", field="project")
    names = ", ".join(map(project_name, known)) or "none"
    raise NotFound(f"Project '{cut(wanted)}' does not exist; projects are: {names}.", field="project")


def role_view(role: Role) -> JsonObject:
    """A role as callers see it."""
    return {"name": role.name, "display_name": role.display_name, "description": role.description}


def find_role(roles: Sequence[Role], wanted: str, project: str) -> Role:
    """The role of this name.

    Raises:
        Rejected: there is none.
    """
    for role in roles:
        if slug(wanted) and slug(wanted) in (slug(role.name), slug(role.display_name)):
            return role
    names = ", ".join(role.name for role in roles)
    raise Rejected(f"role '{cut(wanted)}' does not exist in project '{project}'; roles are: {names}.", field="role")
