"""What Coder answers, as far as the fleet uses it. Unknown fields are left out, and null is read as absent."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasPath,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
)

type Text = Annotated[str, BeforeValidator(lambda given: "" if given is None else given)]
type Moment = Annotated[AwareDatetime, AfterValidator(lambda given: given.astimezone(UTC))]


def _listed(given: Any) -> Any:
    return () if given is None else given


type Listed[T] = Annotated[tuple[T, ...], BeforeValidator(_listed)]
"""A list, which may be null."""


def _state(given: str) -> str:
    return "failed" if given.lower() == "failure" else given.lower()


type State = Annotated[Text, AfterValidator(_state)]
"""`working`, `idle`, `complete` or `failed` (older: `failure`), or what a newer Coder has besides."""


ECHO = timedelta(seconds=5)
"""Coder also tells when a terminal begins and ends to work, with the last message of the agent and without its flag."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True)


class AppStatus(_Read):
    """What a coding agent reported of itself at a time."""

    state: State
    message: Text = ""
    uri: Text = ""
    needs_user_attention: bool | None = None
    at: Moment = Field(validation_alias="created_at")


def _asks(status: AppStatus) -> bool:
    return status.needs_user_attention is True


class App(_Read):
    """An app of a workspace."""

    slug: Text
    id: Text = ""
    url: Text = ""
    subdomain: bool = False
    subdomain_name: Text = ""
    health: Text = ""
    statuses: Listed[AppStatus] = ()


class WorkspaceAgent(_Read):
    """What Coder runs in a workspace. It is no coding agent."""

    id: str
    name: Text = ""
    status: Text = ""
    lifecycle: Text = Field("", validation_alias="lifecycle_state")
    apps: Listed[App] = ()

    @property
    def ready(self) -> bool:
        """Whether it is connected and has run its scripts."""
        return self.status == "connected" and self.lifecycle == "ready"


class _Resource(_Read):
    agents: Listed[WorkspaceAgent] = ()


_SCRIPTS = {
    "start_error": "a startup script of its workspace has failed",
    "start_timeout": "a startup script of its workspace has not ended in time",
}

_RESOURCES = TypeAdapter(list[_Resource])


def _is_list(given: object) -> bool:
    return isinstance(given, list)


def _agents(given: Any) -> Any:
    """The agents of the resources in an answer; agents that are given as such are left as they are."""
    if not _is_list(given):
        return _listed(given)
    return tuple(agent for resource in _RESOURCES.validate_python(given) for agent in resource.agents)


def _build(*path: str) -> AliasPath:
    return AliasPath("latest_build", *path)


class Workspace(_Read):
    """A workspace with its latest build."""

    id: str
    name: str
    owner: Text = Field("", validation_alias="owner_name")
    organization_id: Text = ""
    template_id: Text = ""
    template_name: Text = ""
    template_display_name: Text = ""
    task_id: Text = ""
    created_at: Moment
    updated_at: Moment
    transition: Text = Field(validation_alias=_build("transition"))
    job_status: Text = Field(validation_alias=_build("job", "status"))
    job_error: Text = Field("", validation_alias=_build("job", "error"))
    build_id: Text = Field("", validation_alias=_build("id"))
    template_version_id: Text = Field("", validation_alias=_build("template_version_id"))
    preset_id: Text = Field("", validation_alias=_build("template_version_preset_id"))
    has_ai_task: bool | None = Field(False, validation_alias=_build("has_ai_task"))
    task_app_id: Text = Field("", validation_alias=_build("ai_task_sidebar_app_id"))
    agents: Annotated[tuple[WorkspaceAgent, ...], BeforeValidator(_agents)] = Field(
        (), validation_alias=_build("resources")
    )

    @property
    def running(self) -> bool:
        """Whether a coding agent can work in it: it is started, and one of its agents is ready."""
        started = self.transition == "start" and self.job_status == "succeeded"
        return started and any(agent.ready for agent in self.agents)

    @property
    def not_started(self) -> str | None:
        """Why an agent whose workspace is on cannot work, if Coder has given it up; None: it works or may work soon."""
        for agent in () if self.running else self.agents:
            if agent.lifecycle in _SCRIPTS:
                return f"{_SCRIPTS[agent.lifecycle]} (Coder: {agent.lifecycle})"
        return None

    @property
    def ended(self) -> bool:
        """Whether the program of its coding agent does not answer any more, as Coder finds."""
        apps = (app for agent in self.agents for app in agent.apps)
        return any(app.health == "unhealthy" and (app.statuses or app.id == self.task_app_id) for app in apps)

    @property
    def reported(self) -> AppStatus | None:
        """What its coding agent reported last; a question also if statuses of its terminal followed at once."""
        statuses = [status for agent in self.agents for app in agent.apps for status in app.statuses]
        newest = max(statuses, key=lambda status: status.at, default=None)
        if newest is None or newest.state == "working":
            return newest
        same = (one for one in statuses if one.message == newest.message and newest.at - one.at <= ECHO)
        return newest.model_copy(update={"needs_user_attention": True}) if any(map(_asks, same)) else newest


class Workspaces(_Read):
    """A page of workspaces."""

    workspaces: Listed[Workspace] = ()
    count: int = 0


class Build(_Read):
    """A build of a workspace: `status` is that of its job."""

    id: str
    status: Text = Field(validation_alias=AliasPath("job", "status"))
    error: Text = Field("", validation_alias=AliasPath("job", "error"))


class Template(_Read):
    """A template of workspaces."""

    id: str
    name: str
    display_name: Text = ""
    description: Text = ""
    organization_id: Text = ""
    active_version_id: Text = ""
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class TaskState:
    """What Coder says that a coding agent does. `needs_user_attention` is None where Coder does not say."""

    state: str
    message: str
    at: Moment
    needs_user_attention: bool | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """A role of a template: either a preset, or a value of a parameter."""

    name: str
    display_name: str
    description: str = ""
    preset_id: str | None = None
    parameter: tuple[str, str] | None = None


def unique_roles(roles: Iterable[Role]) -> tuple[Role, ...]:
    """The roles without those whose name an earlier one has."""
    return tuple({role.name: role for role in reversed([*roles])}.values())[::-1]
