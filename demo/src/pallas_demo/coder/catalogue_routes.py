"""Coder's REST API: what there is apart from workspaces: the deployment, organisations, users, templates."""

from collections.abc import Callable
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from pallas_demo.coder import views
from pallas_demo.coder.answers import NOT_FOUND, Refusal, uuid_of
from pallas_demo.coder.views import Json
from pallas_demo.coder.workspaces import Workspaces
from pallas_demo.coder.world import ORGANISATION, USER, USER_NAME, Template, template_of


def known_user(request: Request) -> None:
    """Refuse unless the path names the one user."""
    given = request.path_params["user"]
    if given.lower() not in ("me", USER_NAME, USER):
        raise Refusal(400, '"user" must be an existing uuid or username.', f'queried user="{given}"')


def known_organisation(request: Request) -> None:
    """Refuse unless the path names the organisation, or none."""
    given = request.path_params.get("organization", "coder").lower()
    if given not in ("coder", "default", ORGANISATION):
        raise Refusal(404, NOT_FOUND)


class Catalogue:
    """The handlers."""

    def __init__(self, workspaces: Workspaces, url: Callable[[], str]) -> None:
        self.all, self.settings, self.url = workspaces, workspaces.settings, url

    def routes(self) -> list[BaseRoute]:
        """What is below `/api/v2`."""
        get = partial(Route, methods=["GET"])
        return [
            get("/buildinfo", self.build_info),
            get("/applications/host", self.host),
            get("/organizations", self.organisations),
            get("/organizations/{organization}/templates", self.templates),
            get("/organizations/{organization}/templates/{name}", self.named_template),
            get("/templates", self.templates),
            get("/templates/{template}", self.template),
            get("/templateversions/{version}", self.version),
            get("/templateversions/{version}/rich-parameters", self.parameters),
            get("/templateversions/{version}/presets", self.presets),
            get("/users/{user}", self.user),
            get("/users/{user}/organizations", self.organisations),
        ]

    async def build_info(self, request: Request) -> Response:
        return JSONResponse(views.build_info(self.all.world, self.url(), self.settings.release))

    async def host(self, request: Request) -> Response:
        return JSONResponse({"host": self.settings.wildcard})

    async def organisations(self, request: Request) -> Response:
        if "user" in request.path_params:
            known_user(request)
        return JSONResponse([views.organisation()])

    async def user(self, request: Request) -> Response:
        known_user(request)
        return JSONResponse(views.user())

    async def templates(self, request: Request) -> Response:
        known_organisation(request)
        return JSONResponse(views.templates(self.all.world))

    async def named_template(self, request: Request) -> Response:
        known_organisation(request)
        return JSONResponse(self._only(views.templates(self.all.world), name=request.path_params["name"]))

    async def template(self, request: Request) -> Response:
        wanted = uuid_of(request.path_params["template"])
        return JSONResponse(self._only(views.templates(self.all.world), id=wanted))

    def _only(self, found: list[Json], **wanted: str) -> Json:
        [(field, value)] = wanted.items()
        try:
            return next(one for one in found if one[field] == value)
        except StopIteration:
            raise Refusal(404, NOT_FOUND) from None

    def _version(self, request: Request) -> Template:
        wanted = uuid_of(request.path_params["version"])
        found = template_of(wanted)
        if found is None or found.id == wanted:
            raise Refusal(404, NOT_FOUND)
        return found

    async def version(self, request: Request) -> Response:
        found = self._version(request)
        fields = {"id": request.path_params["version"], "template_id": found.id, "organization_id": ORGANISATION}
        job = {"id": views.NIL, "status": "succeeded"}
        return JSONResponse(fields | {"name": found.name, "created_at": views.EPOCH, "job": job})

    async def parameters(self, request: Request) -> Response:
        shown = self.all.parameters(self._version(request))
        return JSONResponse([views.parameter(one) for one in shown])

    async def presets(self, request: Request) -> Response:
        return JSONResponse(views.presets(self._version(request), self.settings.lower_presets))
