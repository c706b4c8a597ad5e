"""The HTTP routes: the well-known document for all teams or one, and the read-only part of the official registry API.

A server name holds a slash, which arrives as it is or URL-encoded, even twice; routing sees the decoded path.
"""

from collections.abc import Callable
from typing import Annotated
from urllib.parse import unquote

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pallas_contracts.errors import NotFound, PallasError, Rejected
from pallas_runtime.http.problems import STATUS
from registry.http.cors import Cors
from registry.http.etags import is_fresh
from registry.listing.compile_listing import Listed, Listing, dump
from registry.listing.paging import LATEST, page, parse_query

_STATUS = {**STATUS, "rejected": 400}
"""The official registry API answers a bad parameter with 400."""

type Parameter = Annotated[str | None, Query()]


def make_http(listing: Callable[[], Listing]) -> Cors:
    """Return the ASGI application; `listing` is called for every request."""
    return Cors(make_app(listing))


def make_app(listing: Callable[[], Listing]) -> FastAPI:
    """The routes."""
    app = FastAPI(title="Pallas registry", version="0.1", docs_url=None, redoc_url=None, telemetry={"tracing": False})

    @app.get("/.well-known/mcp/server.json", summary="All agents")
    async def list_agents(request: Request) -> Response:
        now = listing()
        return _answer(request, now, lambda: now.body)

    @app.get("/own/.well-known/mcp/server.json", summary="The agents of this cell")
    async def list_own(request: Request) -> Response:
        now = listing()
        return _answer(request, now, lambda: now.own)

    @app.get("/teams/{team}/.well-known/mcp/server.json", summary="The agents of one team")
    async def list_team(request: Request, team: str) -> Response:
        now = listing()
        if team not in now.teams:
            raise NotFound(f"team {team!r} has no agents")
        return _answer(request, now, lambda: now.teams[team])

    @app.get("/v0.1/servers", summary="Agents by page")
    async def list_servers(
        request: Request,
        limit: Parameter = None,
        cursor: Parameter = None,
        search: Parameter = None,
        version: Parameter = None,
        updated_since: Parameter = None,
    ) -> Response:
        query = parse_query(limit, cursor, search, version, updated_since)
        now = listing()
        return _answer(request, now, lambda: dump(page(now, query)))

    @app.get("/v0.1/servers/{name:path}/versions/{version}", summary="One agent")
    async def get_version(request: Request, name: str, version: str) -> Response:
        now = listing()
        entry = _find(now, name)
        if version not in (LATEST, entry.version):
            raise NotFound(f"server {entry.name!r} has no version {version!r}")
        return _answer(request, now, lambda: dump(entry.document))

    @app.get("/v0.1/servers/{name:path}/versions", summary="The one version of an agent")
    async def list_versions(request: Request, name: str) -> Response:
        now = listing()
        entry = _find(now, name)
        return _answer(request, now, lambda: dump({"servers": [entry.document], "metadata": {"count": 1}}))

    app.add_exception_handler(PallasError, _pallas_error)
    app.add_exception_handler(HTTPException, _http_error)
    return app


def _find(listing: Listing, name: str) -> Listed:
    plain = unquote(name)
    found = next((entry for entry in listing.servers if entry.name == plain), None)
    if found is None:
        raise NotFound(f"server {plain!r} is not listed")
    return found


def _answer(request: Request, listing: Listing, body: Callable[[], bytes]) -> Response:
    headers = {"ETag": listing.etag, "Cache-Control": "no-cache"}
    if is_fresh(request.headers.get("if-none-match"), listing.etag):
        return Response(status_code=304, headers=headers)
    return Response(body(), media_type="application/json", headers=headers)


def _error(status: int, message: str, **facts: object) -> Response:
    return JSONResponse({"error": message, **facts}, status_code=status)


async def _pallas_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PallasError)
    facts = {"code": error.code, **(error.facts if isinstance(error, Rejected) else {})}
    return _error(_STATUS[error.kind], error.message, **facts)


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail)
