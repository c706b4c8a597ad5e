"""What the stand-in knows: one organisation, one user, templates, and workspaces with their builds."""

import re
from datetime import datetime
from pathlib import Path
from typing import Literal, Self
from uuid import NAMESPACE_URL, uuid4, uuid5

from pydantic import BaseModel, Field

from pallas_demo.coder.terminal import now

ORGANISATION = "1dd993f1-dec7-401f-bbc3-0df50c2bee9b"
USER = "6cbbea9f-08e0-46cd-bdba-410a5f3e5d5a"
USER_NAME = "owner"
APP = "ccw"
"""The slug of the app that is AgentAPI."""
SPEC = "AI Prompt"
_NAME = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")

type Transition = Literal["start", "stop", "delete"]
type JobStatus = Literal["pending", "running", "succeeded", "failed", "canceled"]
type State = Literal["working", "idle", "complete", "failure"]


def derived(*parts: str) -> str:
    """An id that follows from others."""
    return str(uuid5(NAMESPACE_URL, "/".join(parts)))


def valid_name(name: str) -> bool:
    """Whether Coder takes a name for a workspace."""
    return bool(_NAME.fullmatch(name)) and len(name) <= 32 and name.lower() not in ("new", "create")


class Parameter(BaseModel):
    """A rich parameter of a template. Options are values."""

    name: str
    description: str = ""
    options: list[str] = []
    form: str = "input"


class Preset(BaseModel):
    """A preset of a template: values of parameters under a name."""

    id: str
    name: str
    parameters: dict[str, str]
    default: bool = False


class Template(BaseModel):
    """A template with its active version; `older` versions have the same parameters."""

    id: str
    version: str
    name: str
    title: str
    description: str = ""
    parameters: list[Parameter] = []
    presets: list[Preset] = []
    older: list[str] = []
    ai: bool = True
    fails: bool = False


class AppStatus(BaseModel):
    """What a coding agent reported of itself."""

    id: str = Field(default_factory=lambda: str(uuid4()))
    created_at: str = Field(default_factory=now)
    state: State
    message: str = ""
    uri: str = ""
    icon: str = ""
    needs_user_attention: bool = False


class Build(BaseModel):
    """One transition of a workspace and its job."""

    id: str = Field(default_factory=lambda: str(uuid4()))
    number: int
    transition: Transition
    version: str
    preset: str | None = None
    parameters: dict[str, str] = {}
    status: JobStatus = "pending"
    error: str = ""
    orphan: bool = False
    created_at: str = Field(default_factory=now)
    started_at: str = ""
    completed_at: str = ""

    @property
    def active(self) -> bool:
        """Whether its job has not ended."""
        return self.status in ("pending", "running")

    @property
    def state(self) -> str:
        """The status of a workspace whose latest build this is."""
        going, gone = {"start": ("starting", "running"), "stop": ("stopping", "stopped")}.get(
            self.transition, ("deleting", "deleted")
        )
        return {"pending": "pending", "running": going, "succeeded": gone}.get(self.status, self.status)


class Workspace(BaseModel):
    """A workspace; what it is comes from its latest build."""

    id: str = Field(default_factory=lambda: str(uuid4()))
    name: str
    template: Template
    builds: list[Build] = []
    statuses: list[AppStatus] = []
    token: str = Field(default_factory=lambda: str(uuid4()))
    created_at: str = Field(default_factory=now)
    title: str = ""
    prompt: str = ""  # of its task
    prompted: bool = False  # whether the spec was typed

    @property
    def build(self) -> Build:
        """The latest build."""
        return self.builds[-1]

    @property
    def state(self) -> str:
        """Its status in Coder's words."""
        return self.build.state

    @property
    def deleted(self) -> bool:
        """Whether it is gone."""
        return self.state == "deleted"

    @property
    def task(self) -> str:
        """The id of its task."""
        return derived(self.id, "task")

    @property
    def agent(self) -> str:
        """The id of its workspace agent: another one in each start."""
        return derived(self.build.id, "agent")

    @property
    def app(self) -> str:
        """The id of the app that is AgentAPI."""
        return derived(self.build.id, APP)

    @property
    def spec(self) -> str:
        """The first prompt."""
        given = (build.parameters[SPEC] for build in reversed(self.builds) if SPEC in build.parameters)
        return self.prompt or next(given, "")

    def status_now(self, lag: float = 0.0) -> AppStatus | None:
        """The last report that is older than a lag in seconds."""
        last = datetime.fromisoformat(now()).timestamp() - lag
        old = (status for status in self.statuses if datetime.fromisoformat(status.created_at).timestamp() <= last)
        return max(old, key=lambda status: status.created_at, default=None)


class Chat(BaseModel):
    """A chat of Coder's own agent, which works in a workspace."""

    id: str = Field(default_factory=lambda: str(uuid4()))
    workspace: str
    title: str = ""
    labels: dict[str, str] = {}
    archived: bool = False
    created_at: str = Field(default_factory=now)


class World(BaseModel):
    """All of it."""

    deployment: str = Field(default_factory=lambda: str(uuid4()))
    workspaces: dict[str, Workspace] = {}
    chats: dict[str, Chat] = {}
    interrupted: list[str] = Field(default=[], exclude=True)  # workspaces that were on when the stand-in ended

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """What a file holds. Programs do not outlive the stand-in: workspaces that were on are stopped."""
        if path is None or not path.exists():
            return cls()
        world = cls.model_validate_json(path.read_bytes())
        for workspace in world.workspaces.values():
            build = workspace.build
            if build.active:
                build.status, build.error, build.completed_at = "failed", "provisioner was restarted", now()
            elif build.state == "running":
                stop = Build(number=build.number + 1, transition="stop", version=build.version, status="succeeded")
                stop.started_at = stop.completed_at = now()
                workspace.builds.append(stop)
                world.interrupted.append(workspace.id)
        return world

    def save(self, path: Path | None) -> None:
        """Write the file, all or nothing."""
        if path is not None:
            part = path.with_suffix(".part")
            part.write_text(self.model_dump_json())
            part.replace(path)

    def named(self, name: str) -> Workspace | None:
        """The workspace of a name that is not deleted. Coder does not mind case."""
        alive = (workspace for workspace in self.workspaces.values() if not workspace.deleted)
        return next((workspace for workspace in alive if workspace.name.lower() == name.lower()), None)


_PROMPT = Parameter(name=SPEC, description="Write a prompt for Claude Code")
_SYSTEM = Parameter(name="system_prompt", description="System prompt for the agent", form="textarea")
_ROLES = {
    "Coder": "You are an expert software development assistant.",
    "Operator": "You are an expert site reliability engineer.",
    "Manager": "You plan work and divide it among agents.",
}
_PRESET_IDS = ("d2e0fcc7-59d5-493b-a346-2b90e26aabe9", "2bda65ea-d751-478d-8252-2cb10265bb5e")

TEMPLATES = (
    Template(
        id="cc29db59-0483-4520-869e-777e9a05bf65",
        version="247b41ce-bcdc-43d1-8dcf-8a82bf574ffd",
        older=["38f1960f-ff3a-4591-9a42-395a913859c4"],
        name="coder-devcontainer",
        title="Setup",
        parameters=[_PROMPT, _SYSTEM],
        presets=[
            Preset(id=id_, name=name, parameters={"system_prompt": text}, default=name == "Coder")
            for id_, (name, text) in zip((*_PRESET_IDS, derived("preset", "Manager")), _ROLES.items(), strict=True)
        ],
    ),
    Template(
        id="c53e716b-1d3f-4ac2-83af-9dbc6ea07029",
        version="eac258c2-6818-43f5-b5e2-1a4e8cb9c4db",
        name="coder-dataone-devcontainer",
        title="DataOne",
        parameters=[_PROMPT, Parameter(name="role", options=["coder", "operator", "manager"], form="dropdown")],
    ),
    Template(
        id=derived("template", "always-fails"),
        version=derived("version", "always-fails"),
        name="always-fails",
        title="Broken",
        description="Its provisioning always fails.",
        parameters=[_PROMPT],
        fails=True,
    ),
    Template(
        id=derived("template", "plain-vm"),
        version=derived("version", "plain-vm"),
        name="plain-vm",
        title="Plain",
        description="A machine without a coding agent.",
        ai=False,
    ),
)
"""The first two have the ids of the recorded deployment."""


def template_of(id_: str) -> Template | None:
    """The template with an id, or with a version of that id."""
    return next((one for one in TEMPLATES if id_ in (one.id, one.version, *one.older)), None)
