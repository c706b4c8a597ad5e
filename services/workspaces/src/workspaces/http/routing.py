"""The routes: the API below `/api/v1`, and the console everywhere else."""

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from pallas_runtime.api_errors import add_error_handlers, refusals
from pallas_runtime.front import Front
from workspaces.http.administration import (
    agents_router,
    deliveries_router,
    instances_router,
    settings_router,
    workspaces_router,
)
from workspaces.http.admit import Admission
from workspaces.http.console import Console, with_security_headers
from workspaces.http.conversations import conversations_router
from workspaces.http.events import events_router
from workspaces.http.login import login_router
from workspaces.http.messages import messages_router
from workspaces.http.parts import API, Parts
from workspaces.http.streams import with_sessions
from workspaces.http.turns import turns_router

ROUTERS = (
    login_router,
    instances_router,
    workspaces_router,
    agents_router,
    conversations_router,
    messages_router,
    events_router,
    deliveries_router,
    settings_router,
    turns_router,
)
"""The routes of each subject."""

REFUSALS = refusals(
    {
        400: "The body is not complete",
        401: "Nobody is logged in",
        403: "The CSRF token is wrong, or the request comes from another site",
        404: "Not found",
        408: "The body did not arrive in time",
        409: "The request conflicts with the current state",
        413: "The body is too large",
        422: "Bad input; `field` names the field",
        429: "Too many logins of this address have failed; `Retry-After` says when to try again",
        502: "A registry, or Mnemosyne, does not answer as it should",
        503: "Something that is needed cannot be used; `Retry-After` says when to try again",
    }
)
"""The refusals that routes document."""


def make_http(parts: Parts) -> ASGIApp:
    """The ASGI application."""
    api = with_sessions(make_api(parts), parts.access.sessions, parts.hub)
    console = Console()

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["path"] == "/api" or scope["path"].startswith("/api/")
        await (api if is_api else console)(scope, receive, send)

    return with_security_headers(Front(either, Admission(parts.access, parts.settings).admit))


def make_api(parts: Parts) -> FastAPI:
    """The API. The state of a request must have `who` and `session`."""
    app = FastAPI(
        title="Pallas workspaces",
        version=parts.version,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False},
    )
    for router in ROUTERS:
        app.include_router(router(parts), prefix=API, responses=REFUSALS)
    add_error_handlers(app)
    return app
