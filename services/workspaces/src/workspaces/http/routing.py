"""The routes."""

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from pallas_runtime.api_errors import add_error_handlers, refusals
from workspaces.http.parts import Parts

API = "/api/v1"
REFUSALS = refusals({401: "Nobody is logged in", 403: "The request may come from another site", 422: "Bad input"})


def make_http(parts: Parts) -> ASGIApp:
    """The ASGI application."""
    return make_app(parts)


def make_app(parts: Parts) -> FastAPI:
    """The routes."""
    app = FastAPI(
        title="Pallas workspaces",
        version="0.1",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    routers: tuple[APIRouter, ...] = ()
    for router in routers:
        app.include_router(router, prefix=API, responses=REFUSALS)
    add_error_handlers(app)
    return app
