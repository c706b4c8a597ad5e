"""The client of Coder, with what it needs of the roles of users and the apps of workspaces."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
from pydantic import AliasChoices, BaseModel, Field, TypeAdapter

from fleet.coder.chats import Chats, ChatTerminal
from fleet.coder.model import (
    App,
    Build,
    Listed,
    Role,
    TaskState,
    Template,
    Text,
    Workspace,
    WorkspaceAgent,
    Workspaces,
    unique_roles,
)
from fleet.coder.rest import ABSENT, Rest, segment
from fleet.coder.tasks import TaskApi, metadata_of
from fleet.names import slug
from fleet.reaching.http import Http
from fleet.terminal.agent_api import Terminal
from pallas_contracts.errors import Conflict

PROMPT = "AI Prompt"
"""The parameter that is a coding agent's first prompt."""

PAGE = 25
"""Workspaces in a request. One has 50 to 150 kB."""


class _Parameter(BaseModel):
    name: str
    value: Text = ""


class _AppsHost(BaseModel):
    host: Text = ""


_BUILD, _WORKSPACE = TypeAdapter(Build), TypeAdapter(Workspace)
_WORKSPACES, _APPS_HOST = TypeAdapter(Workspaces), TypeAdapter(_AppsHost)
_TEMPLATES: TypeAdapter[tuple[Template, ...]] = TypeAdapter(Listed[Template])
_PARAMETERS: TypeAdapter[tuple[_Parameter, ...]] = TypeAdapter(Listed[_Parameter])


class Coder:
    """Coder as the owner of the token sees it. `apps` are the slugs of the apps that are AgentAPI.

    Every coroutine raises:
        Unavailable: Coder is away, refuses the token, or answers nonsense (`coder_unavailable`; `reason`, `status`).
    """

    def __init__(self, http: Http, *, apps: Sequence[str] = ("ccw",), organization: str | None = None) -> None:
        self._rest = Rest(http)
        self._http = http
        self._apps = tuple(apps)
        self._organization = organization
        self._tasks = TaskApi(self._rest)
        self._chats = Chats(self._rest)
        self._wildcard: str | None = None

    async def workspaces(self) -> tuple[Workspace, ...]:
        """All workspaces of the token's owner."""
        async with self._rest.within():
            first = await self._page(0)
            rest = await asyncio.gather(*(self._page(offset) for offset in range(PAGE, min(first.count, 10_000), PAGE)))
            found = {one.id: one for page in (first, *rest) for one in page.workspaces}
            await self._learn_hosts(found)
        return tuple(found.values())

    async def workspace(self, workspace_id: str) -> Workspace | None:
        """A workspace; None: there is none, or it was deleted."""
        async with self._rest.within():
            found = await self._rest.get(f"api/v2/workspaces/{segment(workspace_id)}", _WORKSPACE)
            await self._learn_hosts({} if found is None else {found.id: found})
        return found

    async def create(
        self, name: str, template: Template, *, preset_id: str | None, parameters: Mapping[str, str]
    ) -> Workspace:
        """Make a workspace, whose build begins.

        Raises:
            Conflict: there is one of this name (`name_taken`).
            Rejected: Coder does not take it; `validations` has `field` and `detail` of each fault.
            NotFound: there is no such template any more.
        """
        body: dict[str, Any] = {"name": name, "template_id": template.id}
        if preset_id is not None:
            body["template_version_preset_id"] = preset_id
        body["rich_parameter_values"] = [{"name": key, "value": value} for key, value in parameters.items()]
        organization = segment(self._organization or template.organization_id)
        path = f"api/v2/organizations/{organization}/members/me/workspaces"
        try:
            return await self._rest.post(path, body, _WORKSPACE, taken="name_taken")
        except Conflict as error:
            raise Conflict(f"A workspace named {name!r} already exists.", code="name_taken") from error

    async def takes_prompt(self, template: Template) -> bool:
        """Whether a template has the parameter that is a coding agent's first prompt."""
        async with self._rest.within():
            return PROMPT in await parameters_of(self._rest, template)

    async def create_task(self, name: str, template: Template, preset_id: str | None, prompt: str) -> Workspace | None:
        """Make a workspace as a task of Coder, which gives its agent the prompt.

        None: nothing was made, because this Coder has no tasks (before 2.24, or since 2.37), or the template is not
        for them.

        Raises:
            Conflict, Rejected: as `create` does.
        """
        made = await self._tasks.create(name, template.active_version_id, preset_id, prompt)
        if made is None:
            return None
        found = await self.workspace(made)
        if found is None:
            raise self._rest.peer.unusable("unreadable", "has made a task without a workspace")
        return found

    async def start_build(self, workspace_id: str, transition: str) -> str:
        """Start, stop or delete a workspace; returns the id of the build.

        Raises:
            Conflict: another build is under way (`build_active`).
            NotFound: there is no such workspace any more.
            Rejected: Coder does not allow it.
        """
        path = f"api/v2/workspaces/{segment(workspace_id)}/builds"
        return (await self._rest.post(path, {"transition": transition}, _BUILD, taken="build_active")).id

    async def cancel_build(self, build_id: str) -> None:
        """Cancel a build that is under way. One that has ended stays as it is, and so does one that may not be."""
        answer = await self._rest.send("PATCH", f"api/v2/workspacebuilds/{segment(build_id)}/cancel")
        if answer.status >= 300 and answer.status not in ABSENT | {403, 409, 412}:
            raise self._rest.refused(answer)

    async def build(self, build_id: str) -> Build | None:
        """How a build is going; None: Coder does not know it any more."""
        return await self._rest.get(f"api/v2/workspacebuilds/{segment(build_id)}", _BUILD)

    async def templates(self) -> tuple[Template, ...]:
        """All templates that the owner of the token sees."""
        return await self._rest.have("api/v2/templates", _TEMPLATES)

    async def roles(self, template: Template) -> tuple[Role, ...]:
        """The roles that agents of a template can have; there is always one."""
        async with self._rest.within():
            return await roles_of(self._rest, template)

    async def metadata(self, workspace: Workspace) -> dict[str, str]:
        """What the workspace reports, by Coder's keys without their numbers: `agent_spec`, `pull_request_url`, …."""
        async with self._rest.within():
            return await metadata_of(self._rest, workspace)

    async def prompt(self, workspace: Workspace) -> str:
        """The first prompt of a workspace's coding agent; empty: it has none."""
        async with self._rest.within():
            path = f"api/v2/workspacebuilds/{segment(workspace.build_id)}/parameters"
            parameters = await self._rest.get(path, _PARAMETERS) or ()
            given = next((one.value for one in parameters if one.name == PROMPT), "")
            task = None if given else await self._tasks.find(workspace)
        return task.initial_prompt if task is not None else given

    async def task_state(self, workspace: Workspace) -> TaskState | None:
        """What the coding agent last reported; None: nothing."""
        async with self._rest.within():
            return await self._tasks.state(workspace)

    def terminal(self, workspace: Workspace) -> Terminal | None:
        """The terminal of a workspace's coding agent, or its chat; None: it has no such app, and Coder no chats."""
        found, base, whose = find_app(workspace, self._apps), self._http.base, f"workspace {workspace.name!r}"
        if base is None:
            return None
        if found is not None:
            return Terminal(self._http, app_url(base, self._wildcard or "", workspace, *found), whose)
        place = self._chats.place
        return None if place is None else ChatTerminal(self._http, base, whose, self._rest, place, workspace)

    async def forget(self, workspace: Workspace) -> None:
        """Put away what Coder keeps of the agent of a workspace that was deleted."""
        if isinstance(terminal := self.terminal(workspace), ChatTerminal):
            await terminal.archive()

    async def _page(self, offset: int) -> Workspaces:
        return await self._rest.have(
            "api/v2/workspaces", _WORKSPACES, {"q": "owner:me", "limit": PAGE, "offset": offset}
        )

    async def _learn_hosts(self, found: Mapping[str, Workspace]) -> None:
        """Ask once where Coder serves apps, if a terminal is at a host of its own, and for chats if there is none."""
        built = (one for one in found.values() if one.transition == "start" and one.job_status == "succeeded")
        if any(find_app(one, self._apps) is None for one in built):
            await self._chats.learn()
        if self._wildcard is not None:
            return
        apps = [pair[1] for one in found.values() if (pair := find_app(one, self._apps)) is not None]
        if any(app.subdomain for app in apps):
            hosts = await self._rest.get("api/v2/applications/host", _APPS_HOST)
            self._wildcard = hosts.host if hosts is not None else ""
            self._http.trust_apps(self._wildcard)


_PORT = re.compile(r"http://(localhost|127\.0\.0\.1):3284(/|$)")


def find_app(workspace: Workspace, slugs: Sequence[str]) -> tuple[WorkspaceAgent, App] | None:
    """The app that is AgentAPI: the first of these slugs, else the one that Coder itself uses for tasks.

    Coder does not say that of new builds any more (since 2.30). Its modules name the app after the agent, and let
    AgentAPI have its usual port.
    """
    apps = [(agent, app) for agent in workspace.agents for app in agent.apps]
    for name in slugs:
        if (found := next((pair for pair in apps if pair[1].slug == name), None)) is not None:
            return found
    task_app = (pair for pair in apps if workspace.task_app_id and pair[1].id == workspace.task_app_id)
    return next(task_app, None) or next((pair for pair in apps if _PORT.match(pair[1].url)), None)


def app_url(base: httpx2.URL, wildcard: str, workspace: Workspace, agent: WorkspaceAgent, app: App) -> httpx2.URL:
    """The address of an app, with a slash at its end. `wildcard` is the form of the hosts of apps, or empty."""
    if app.subdomain and wildcard:
        name = app.subdomain_name or f"{app.slug}--{agent.name}--{workspace.name}--{workspace.owner}"
        return httpx2.URL(f"{base.scheme}://{wildcard.replace('*', name, 1)}/")
    place = f"{segment(workspace.name)}.{segment(agent.name)}" if agent.name else segment(workspace.name)
    return httpx2.URL(f"{base}@{segment(workspace.owner)}/{place}/apps/{segment(app.slug)}/")


PARAMETERS = "role", "agent_role", "system_prompt"
DEFAULT = Role("coder", "Coder")


class _Preset(BaseModel):
    """A preset. Coder writes its fields with capital letters in some versions."""

    id: str = Field(validation_alias=AliasChoices("id", "ID"))
    name: str = Field(validation_alias=AliasChoices("name", "Name"))
    description: Text = Field("", validation_alias=AliasChoices("description", "Description"))


class _Option(BaseModel):
    name: Text = ""
    description: Text = ""
    value: str


class Parameter(BaseModel):
    """A parameter of a template."""

    name: str
    options: Listed[_Option] = ()


PRESETS: TypeAdapter[tuple[_Preset, ...]] = TypeAdapter(Listed[_Preset])
RICH: TypeAdapter[tuple[Parameter, ...]] = TypeAdapter(Listed[Parameter])


async def parameters_of(rest: Rest, template: Template) -> dict[str, Parameter]:
    """The parameters of a template's active version by name. Coder drops others without a word.

    Raises:
        Unavailable: Coder does not answer.
    """
    path = f"api/v2/templateversions/{segment(template.active_version_id)}/rich-parameters"
    return {one.name: one for one in await rest.get(path, RICH) or ()}


async def roles_of(rest: Rest, template: Template) -> tuple[Role, ...]:
    """The roles of a template's active version.

    Raises:
        Unavailable: Coder does not answer.
    """
    version = f"api/v2/templateversions/{segment(template.active_version_id)}"
    presets = await rest.get(f"{version}/presets", PRESETS) or ()
    if presets:
        return unique_roles(
            Role(slug(preset.name) or preset.name, preset.name, preset.description, preset_id=preset.id)
            for preset in presets
        )
    parameters = await parameters_of(rest, template)
    for name in PARAMETERS:
        if name in parameters and (options := parameters[name].options):
            return unique_roles(
                Role(slug(shown) or shown, shown, one.description, None, (name, one.value))
                for one in options
                if (shown := one.name or one.value)
            )
    return (DEFAULT,)
