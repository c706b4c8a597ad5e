"""Coder's tasks, in the newer generation (`/api/v2/tasks`) or the older (`/api/experimental/tasks`)."""

import secrets
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pallas_demo.coder import views
from pallas_demo.coder.answers import NOT_FOUND, Body, Refusal, read, uuid_of
from pallas_demo.coder.catalogue_routes import known_user
from pallas_demo.coder.terminal import Refused
from pallas_demo.coder.views import Json
from pallas_demo.coder.workspace_routes import Api, Uuid
from pallas_demo.coder.workspaces import Running
from pallas_demo.coder.world import ORGANISATION, SPEC, USER, USER_NAME, Workspace, template_of, valid_name


class CreateTask(Body):
    """The body that makes a task."""

    input: str = ""
    prompt: str = ""  # the older generation
    name: str = ""
    display_name: str = ""
    template_version_id: Uuid = ""
    template_version_preset_id: Uuid = ""


class Input(Body):
    """The body that sends a text."""

    input: str = ""


class Tasks:
    """The handlers of one generation. The older one's ids are those of workspaces."""

    def __init__(self, api: Api, *, old: bool) -> None:
        self.api, self.old = api, old

    def routes(self) -> list[BaseRoute]:
        """What is below `/tasks`."""
        get, post, patch = (partial(Route, methods=[method]) for method in ("GET", "POST", "PATCH"))
        return [
            get("/tasks", self.tasks),
            post("/tasks/{user}", self.create),
            get("/tasks/{user}/{task}", self.task),
            Route("/tasks/{user}/{task}", self.delete, methods=["DELETE"]),
            patch("/tasks/{user}/{task}/input", self.update),
            get("/tasks/{user}/{task}/logs", self.logs),
            post("/tasks/{user}/{task}/send", self.send),
        ]

    def show(self, workspace: Workspace) -> Json:
        """A task as it is now."""
        return views.task(workspace, self.api.all.agent(workspace), self.api.all.lag, old=self.old)

    def found(self, request: Request) -> Workspace:
        """The workspace of the task in the path. Raises Refusal."""
        known_user(request)
        given = request.path_params["task"]
        world = self.api.all.world
        if self.old:
            workspace = world.workspaces.get(uuid_of(given))
        else:
            ids = {one.task: one for one in world.workspaces.values()}
            workspace = ids.get(given.lower()) or world.named(given)
        if workspace is None or workspace.deleted or not (self.old or workspace.template.ai):
            raise Refusal(404, NOT_FOUND)
        return workspace

    async def tasks(self, request: Request) -> Response:
        alive = [one for one in self.api.all.world.workspaces.values() if not one.deleted and one.template.ai]
        shown = [self.show(one) for one in alive]
        for word in request.query_params.get("q", "").split():
            key, _, value = word.partition(":")
            match key:
                case "owner":
                    shown = shown if value in ("me", USER_NAME, USER) else []
                case "organization":
                    shown = shown if value in ("coder", ORGANISATION) else []
                case "status":
                    shown = [one for one in shown if one["status"] == value]
                case _:
                    text = f'"{key}" is not a valid query param'
                    raise Refusal(400, "Invalid task search query.", **{key: text})
        return JSONResponse({"tasks": shown, "count": len(shown)})

    async def create(self, request: Request) -> Response:
        known_user(request)
        wanted = await read(request, CreateTask)
        base = template_of(wanted.template_version_id)
        if base is None or base.id == wanted.template_version_id:
            raise Refusal(400, "Template version not found or you do not have access to this resource")
        if not base.ai:
            raise Refusal(400, 'Template does not have a valid "coder_ai_task" resource.')
        if wanted.name and not valid_name(wanted.name):
            text = "must be alphanumeric with dashes, at most 32 characters"
            raise Refusal(400, "Unable to create a Task with the provided name.", text)
        if len(wanted.display_name.strip()) > 64:
            raise Refusal(400, "Display name must be 64 characters or less.")
        name = wanted.name or f"task-{secrets.token_hex(4)}"
        prompt = wanted.input or wanted.prompt
        version, preset = wanted.template_version_id, wanted.template_version_preset_id
        workspace = self.api.make(name, base, version, preset, {SPEC: prompt}, prompt)
        workspace.title = wanted.display_name.strip()
        return JSONResponse(self.show(workspace), 201)

    async def task(self, request: Request) -> Response:
        return JSONResponse(self.show(self.found(request)))

    async def delete(self, request: Request) -> Response:
        workspace = self.found(request)
        if workspace.build.active:
            raise Refusal(409, "A workspace build is already active.")
        self.api.all.start(workspace, self.api.new_build(workspace, "delete", workspace.build.version, "", {}))
        return Response(status_code=202)

    async def update(self, request: Request) -> Response:
        workspace, text = self.found(request), (await read(request, Input)).input
        if not text.strip():
            raise Refusal(400, "Task input is required.")
        if views.task_status(workspace, self.api.all.agent(workspace)) != "paused":
            hint = "Please stop the task's workspace before updating the input."
            raise Refusal(409, "Unable to update task input, task must be paused.", hint)
        workspace.build.parameters[SPEC] = workspace.prompt = text
        workspace.prompted = False
        self.api.all.touch()
        return Response(status_code=204)

    def running(self, workspace: Workspace) -> Running:
        """The program of a task that is active. Raises Refusal."""
        agent = self.api.all.agent(workspace)
        running = self.api.all.running.get(workspace.id)
        if self.old and workspace.state == "running" and not workspace.template.ai:
            raise Refusal(400, "Task is not configured with a sidebar app.")
        status = views.task_status(workspace, agent)
        if status == "active" and running is not None:
            return running
        if running is not None and running.terminal.exit_code is not None:
            raise Refusal(502, "Failed to reach task app endpoint.", "connection refused")
        if self.old:
            raise Refusal(400, "Task is not configured with a sidebar app.")
        match status:
            case "pending" | "initializing":
                hint = "The task is resuming. Wait for the task to become active before sending messages."
                raise Refusal(409, f"Task is {status}.", hint)
            case "paused":
                raise Refusal(409, "Task is paused.", "Resume the task to send messages.")
            case _:
                text = f'Task status is "{status}", it must be "active" to interact with the task.'
                raise Refusal(400, "Task must be active.", text)

    async def logs(self, request: Request) -> Response:
        workspace = self.found(request)
        status = views.task_status(workspace, self.api.all.agent(workspace))
        if not self.old and status in ("paused", "pending", "initializing"):
            return JSONResponse({"logs": [], "snapshot": True})
        messages: list[dict[str, Any]] = self.running(workspace).terminal.messages
        kinds = {"user": "input", "agent": "output"}
        logs = [
            {"id": one["id"], "content": one["content"], "type": kinds[one["role"]], "time": one["time"]}
            for one in messages
        ]
        return JSONResponse({"logs": logs})

    async def send(self, request: Request) -> Response:
        workspace, text = self.found(request), (await read(request, Input)).input
        if not text:
            raise Refusal(400, "Task input is required.")
        terminal = self.running(workspace).terminal
        if terminal.status != "stable":
            raise Refusal(502, "Task app is not ready to accept input.", f"Status: {terminal.status}")
        try:
            await terminal.send(text)
        except Refused as refused:
            raise Refusal(502, "Task app rejected the message.", str(refused)) from None
        return Response(status_code=204)
