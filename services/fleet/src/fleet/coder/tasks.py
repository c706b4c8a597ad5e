"""What Coder knows of the AI task of a workspace, by whichever generation of its task API."""

import asyncio
import re
from dataclasses import dataclass, field

import httpx2
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fleet.coder.model import Moment, State, TaskState, Text, Workspace
from fleet.coder.rest import ABSENT, Rest, segment
from fleet.reaching.http import Answer
from fleet.reaching.peer import explain
from fleet.reaching.reading import read_part
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


SECONDS = 3.0
_NUMBER = re.compile(r"\d+_")
_ABSENT = frozenset({"", "n/a"})


class _Result(BaseModel):
    value: Text = ""
    error: Text = ""


class _Description(BaseModel):
    key: str


class _Item(BaseModel):
    result: _Result
    description: _Description


_ITEMS = TypeAdapter(list[_Item])


async def metadata_of(rest: Rest, workspace: Workspace) -> dict[str, str]:
    """The metadata by key, without the numbers that only order them, and without absent ones.

    Raises:
        Unavailable: Coder does not answer.
    """
    agents = [agent for agent in workspace.agents if agent.ready]
    found: dict[str, str] = {}
    for items in await asyncio.gather(*(_items(rest, agent.id) for agent in agents)):
        for item in items:
            value = item.result.value.strip()
            if not item.result.error and value.lower() not in _ABSENT:
                found.setdefault(_NUMBER.sub("", item.description.key, count=1), value)
    return found


async def _items(rest: Rest, agent: str) -> list[_Item]:
    """What is told first; nothing if Coder has nothing to tell in time."""
    stream = await rest.http.stream(rest.peer, rest.url(f"api/v2/workspaceagents/{segment(agent)}/watch-metadata"))
    try:
        if stream.status_code in ABSENT:
            return []
        if stream.status_code != 200:
            raise rest.refused(Answer(stream.status_code, "", b""))
        if not rest.http.has_events(stream):
            raise rest.peer.unusable("not_json", "answers with something that is not a stream of events", status=200)
        async with asyncio.timeout(SECONDS):
            async for event in httpx2.EventSource(stream, max_event_size=rest.http.limits.answer):
                if event.event == "data":
                    return read_part(_ITEMS, event.data) or []
    except TimeoutError:
        pass
    except httpx2.TransportError as error:
        raise rest.peer.away(*explain(error)) from error
    finally:
        await stream.aclose()
    return []
