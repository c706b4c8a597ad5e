"""What Coder knows of the AI task of a workspace, by whichever generation of its task API."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fleet.coder.model import Moment, State, TaskState, Text, Workspace
from fleet.coder.rest import Rest, segment

GENERATIONS = "api/v2/tasks", "api/experimental/tasks"
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
    current_state: _Entry | None = None


_TASK = TypeAdapter(Task)


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
