"""What Coder knows of the AI task of a workspace, by whichever generation of its task API."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fleet.coder.model import Moment, State, TaskState, Text, Workspace
from fleet.coder.rest import Rest, segment
from pallas_contracts.errors import NotFound, Rejected

STABLE, OLDER = GENERATIONS = "api/v2/tasks", "api/experimental/tasks"
"""The stable one, whose tasks have ids of their own, and the one before, whose ids are those of workspaces."""


class _Entry(BaseModel):
    state: State
    message: Text = ""
    at: Moment = Field(validation_alias="timestamp")


class Task(BaseModel):
    """A task of Coder: a workspace with a prompt."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: Text = ""
    initial_prompt: Text = ""
    workspace_id: Text = ""
    current_state: _Entry | None = None


_TASK = TypeAdapter(Task)
_NO_TASKS = "coder_ai_task"
"""What Coder names when a template is not for tasks."""


@dataclass
class TaskApi:
    """The generation that answered last is asked first; a 404 says that it may be another one."""

    rest: Rest
    _order: list[str] = field(default_factory=lambda: [*GENERATIONS])

    async def find(self, workspace: Workspace) -> Task | None:
        """The task of a workspace; None: Coder has none, or no task API.

        Raises:
            Unavailable: Coder does not answer.
        """
        path = f"{segment(workspace.owner)}/{segment(workspace.task_id or workspace.id)}"
        for generation in tuple(self._order):
            found = await self.rest.get(f"{generation}/{path}", _TASK)
            if found is not None:
                self._order.sort(key=lambda known: known != generation)
                return found
        return None

    async def create(self, name: str, version_id: str, preset_id: str | None, prompt: str) -> str | None:
        """Make a task, and return the id of its workspace. None: Coder has no task API, or the template is not for it.

        Raises:
            Conflict: there is a workspace of this name (`name_taken`).
            Rejected: Coder does not take it.
            Unavailable: Coder does not answer.
        """
        body = {"name": name, "template_version_id": version_id, "input": prompt}
        if preset_id is not None:
            body["template_version_preset_id"] = preset_id
        for generation in tuple(self._order):
            given = body | ({"prompt": prompt} if generation == OLDER else {})  # its first versions call it so
            try:
                return (await self.rest.post(f"{generation}/me", given, _TASK, taken="name_taken")).workspace_id or None
            except NotFound:
                continue
            except Rejected as error:
                if _NO_TASKS in error.message:
                    return None
                raise
        return None

    async def state(self, workspace: Workspace) -> TaskState | None:
        """What the coding agent does; from its own reports where Coder has no task.

        Raises:
            Unavailable: Coder does not answer.
        """
        task = await self.find(workspace)
        said, reported = task.current_state if task is not None else None, workspace.reported
        if said is not None and (reported is None or said.at > reported.at):
            return TaskState(said.state, said.message, said.at)
        if reported is None:
            return None
        return TaskState(reported.state, reported.message, reported.at, reported.needs_user_attention)
