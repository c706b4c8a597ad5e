"""Coder's REST API: workspaces and their builds."""

import json
import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pallas_demo.coder import views
from pallas_demo.coder.answers import NOT_FOUND, Body, Refusal, flag_of, number_of, read, uuid_of
from pallas_demo.coder.catalogue_routes import known_organisation, known_user
from pallas_demo.coder.terminal import now
from pallas_demo.coder.views import Json
from pallas_demo.coder.workspaces import Workspaces
from pallas_demo.coder.world import (
    ORGANISATION,
    USER,
    USER_NAME,
    Build,
    Template,
    Transition,
    Workspace,
    template_of,
    valid_name,
)

PAGE = 1000


def _name(text: str) -> str:
    if not valid_name(text):
        raise ValueError("workspace_name")
    return text


type Uuid = Annotated[str, AfterValidator(lambda text: text and uuid_of(text))]


class Value(Body):
    """A value of a rich parameter."""

    name: str = ""
    value: str = ""


class CreateWorkspace(Body):
    """The body that makes a workspace."""

    name: Annotated[str, AfterValidator(_name)]
    template_id: Uuid = ""
    template_version_id: Uuid = ""
    template_version_preset_id: Uuid = ""
    rich_parameter_values: Annotated[list[Value], Field(default_factory=list)]


class CreateBuild(Body):
    """The body that starts, stops or deletes a workspace."""

    transition: Transition
    orphan: bool = False
    template_version_id: Uuid = ""
    template_version_preset_id: Uuid = ""
    rich_parameter_values: Annotated[list[Value], Field(default_factory=list)]


def values(wanted: CreateWorkspace | CreateBuild) -> dict[str, str]:
    """The rich parameters of a body."""
    return {one.name: one.value for one in wanted.rich_parameter_values}


class Api:
    """The handlers, over the workspaces."""

    def __init__(self, workspaces: Workspaces) -> None:
        self.all, self.settings = workspaces, workspaces.settings

    def routes(self) -> list[BaseRoute]:
        """What is below `/api/v2`."""
        get, post, patch = (partial(Route, methods=[method]) for method in ("GET", "POST", "PATCH"))
        return [
            post("/organizations/{organization}/members/{user}/workspaces", self.create),
            post("/users/{user}/workspaces", self.create),
            get("/users/{user}/workspace/{name}", self.named_workspace),
            get("/workspaces", self.workspaces),
            get("/workspaces/{workspace}", self.workspace),
            get("/workspaces/{workspace}/builds", self.builds),
            post("/workspaces/{workspace}/builds", self.create_build),
            get("/workspacebuilds/{build}", self.build),
            patch("/workspacebuilds/{build}/cancel", self.cancel),
            get("/workspacebuilds/{build}/parameters", self.build_parameters),
        ]

    def show(self, workspace: Workspace) -> Json:
        """A workspace as it is now."""
        with_task = self.settings.generation in ("v2", "both")
        return views.workspace(
            workspace, self.all.agent(workspace), self.all.lag, self.settings.release, with_task=with_task
        )

    async def create(self, request: Request) -> Response:
        known_user(request)
        known_organisation(request)
        wanted = await read(request, CreateWorkspace)
        given = wanted.template_id or wanted.template_version_id
        field = "template_version_id" if wanted.template_version_id and not wanted.template_id else "template_id"
        if not given:
            raise Refusal(400, "Validation failed.", template_id='Validation failed for tag "required" with value: ""')
        base = template_of(given)
        if base is None or (field == "template_id" and base.id != given):
            raise Refusal(400, f'Template "{given}" doesn\'t exist.', **{field: "template not found"})
        workspace = self.make(
            wanted.name, base, wanted.template_version_id, wanted.template_version_preset_id, values(wanted)
        )
        return JSONResponse(self.show(workspace), 201)

    def make(
        self, name: str, base: Template, version: str, preset: str, given: dict[str, str], prompt: str = ""
    ) -> Workspace:
        """Make a workspace, with the prompt of its task, and begin to build it. Raises Refusal."""
        if self.all.world.named(name):
            text = "This value is already in use and should be unique."
            raise Refusal(409, f'Workspace "{name}" already exists.', name=text)
        workspace = Workspace(name=name, template=base, prompt=prompt)
        build = self.new_build(workspace, "start", version or base.version, preset, given)
        self.all.start(workspace, build)
        return workspace

    def new_build(
        self, workspace: Workspace, transition: Transition, version: str, preset: str, given: dict[str, str]
    ) -> Build:
        """A build whose version, preset and values are checked. Raises Refusal."""
        base = workspace.template
        if version not in (base.version, *base.older):
            raise Refusal(400, f'Template version "{version}" doesn\'t exist.', template_version_id="not found")
        chosen = next((one for one in base.presets if one.id == preset), None)
        if preset and chosen is None:
            raise Refusal(400, "Preset not found.", template_version_preset_id="not found")
        taken = workspace.builds[-1].parameters if workspace.builds else {}
        taken = taken | (chosen.parameters if chosen else {}) | given
        known = {one.name: one for one in self.all.parameters(base)}
        taken = {name: value for name, value in taken.items() if name in known}  # others are dropped without a word
        for one in known.values():
            if one.options and taken.get(one.name, one.options[0]) not in one.options:
                detail = f'parameter value "{taken[one.name]}" must be one of {one.options}'
                raise Refusal(400, "Unable to validate parameters", **{one.name: detail})
        number = len(workspace.builds) + 1
        return Build(number=number, transition=transition, version=version, preset=preset or None, parameters=taken)

    def found(self, request: Request, *, deleted: bool = False) -> Workspace:
        """The workspace whose id is in the path. Raises Refusal."""
        id_ = uuid_of(request.path_params["workspace"])
        workspace = self.all.world.workspaces.get(id_)
        if workspace is None:
            raise Refusal(404, NOT_FOUND)
        if workspace.deleted and not deleted:
            hint = "specify '?include_deleted=true' and try again"
            raise Refusal(410, f'Workspace "{id_}" was deleted, {hint}.')
        return workspace

    async def workspaces(self, request: Request) -> Response:
        limit, offset = number_of(request, "limit") or PAGE, number_of(request, "offset")
        found = [one for one in self.all.world.workspaces.values() if not one.deleted]
        for word in request.query_params.get("q", "").split():
            found = [one for one in found if self._matches(one, word)]
        found.sort(key=lambda one: one.name.lower())
        shown = [self.show(one) for one in found[offset : offset + limit]]
        return JSONResponse({"workspaces": shown, "count": len(found)})

    def _matches(self, one: Workspace, word: str) -> bool:
        key, colon, value = word.lower().partition(":")
        value = value.strip('"')
        match key if colon else "":
            case "":
                return word.lower() in one.name.lower()
            case "owner":
                return value in ("me", USER_NAME, USER)
            case "name":
                return value in one.name.lower()
            case "template":
                return value == one.template.name
            case "id":
                return value == one.id
            case "status":
                return value == one.state
            case "organization":
                return value in ("coder", ORGANISATION)
            case "has-ai-task" | "has_ai_task":
                return one.template.ai == (value == "true")
            case _:
                text = f'"{key}" is not a valid query param'
                raise Refusal(400, "Invalid workspace search query.", **{key: text})

    async def workspace(self, request: Request) -> Response:
        return JSONResponse(self.show(self.found(request, deleted=flag_of(request, "include_deleted"))))

    async def named_workspace(self, request: Request) -> Response:
        known_user(request)
        name = request.path_params["name"]
        workspace = self.all.world.named(name)
        if workspace is None and flag_of(request, "include_deleted"):
            gone = self.all.world.workspaces.values()
            workspace = next((one for one in gone if one.name.lower() == name.lower()), None)
        if workspace is None:
            raise Refusal(404, NOT_FOUND)
        return JSONResponse(self.show(workspace))

    async def builds(self, request: Request) -> Response:
        workspace = self.found(request, deleted=True)
        limit, offset = number_of(request, "limit") or PAGE, number_of(request, "offset")
        newest = workspace.builds[::-1]
        if after := request.query_params.get("after_id"):
            ids = [one.id for one in newest]
            if uuid_of(after) not in ids:
                raise Refusal(400, f'Record at "after_id" ({json.dumps(after)}) does not exist.')
            newest = newest[ids.index(uuid_of(after)) + 1 :]
        if since := request.query_params.get("since"):
            if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", since):
                text = 'Query param "since" must be a valid date format (2006-01-02T15:04:05.999999999Z07:00)'
                raise Refusal(400, "Query parameters have invalid values.", since=text)
            newest = [one for one in newest if one.created_at[:19] >= since[:19]]
        return JSONResponse([self._build(workspace, one) for one in newest[offset : offset + limit]])

    def _build(self, workspace: Workspace, one: Build) -> Json:
        return views.build(
            workspace, one, self.all.agent(workspace) if one is workspace.build else None, self.settings.release
        )

    async def create_build(self, request: Request) -> Response:
        workspace = self.found(request)
        wanted = await read(request, CreateBuild)
        if workspace.build.active:
            raise Refusal(409, "A workspace build is already active.")
        version = wanted.template_version_id or workspace.build.version
        build = self.new_build(workspace, wanted.transition, version, wanted.template_version_preset_id, values(wanted))
        build.orphan = wanted.orphan
        self.all.start(workspace, build)
        return JSONResponse(views.build(workspace, build, None, self.settings.release), 201)

    def _of_build(self, request: Request) -> tuple[Workspace, Build]:
        id_ = uuid_of(request.path_params["build"])
        for workspace in self.all.world.workspaces.values():
            for build in workspace.builds:
                if build.id == id_:
                    return workspace, build
        raise Refusal(404, NOT_FOUND)

    async def build(self, request: Request) -> Response:
        return JSONResponse(self._build(*self._of_build(request)))

    async def build_parameters(self, request: Request) -> Response:
        _, build = self._of_build(request)
        return JSONResponse([{"name": name, "value": value} for name, value in build.parameters.items()])

    async def cancel(self, request: Request) -> Response:
        _, build = self._of_build(request)
        expected = request.query_params.get("expect_status", "")
        if expected not in ("", "running", "pending"):
            text = f'Invalid expect_status "{expected}". Only "running" or "pending" are allowed.'
            raise Refusal(400, text)
        if expected and build.status != expected:
            raise Refusal(412, "Job is not in the expected state.")
        if not build.active:
            raise Refusal(400, "Job has already completed!")
        if not self.settings.cancels:
            raise Refusal(403, "User is not allowed to cancel workspace builds. Owner role is required.")
        build.status, build.completed_at = "canceled", now()
        self.all.touch()
        return JSONResponse({"message": "Job has been marked as canceled..."})
