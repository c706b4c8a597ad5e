"""The HTTP routes: the well-known document for all teams or one, and the read-only part of the official registry API.

A server name holds a slash, which arrives as it is or URL-encoded, even twice; routing sees the decoded path.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated
from urllib.parse import unquote

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound, PallasError, Rejected
from pallas_runtime.http.problems import STATUS
from registry.document import is_server_name
from registry.listing import Listed, Listing, dump

DEFAULT_LIMIT = 30
LARGEST_LIMIT = 100
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Selection:
    """A query: `after` is a server name, `search` a part of one, `version` exact or `latest`."""

    limit: int = DEFAULT_LIMIT
    after: str = ""
    search: str = ""
    version: str = LATEST
    updated_since: datetime | None = None

    def selects(self, entry: Listed) -> bool:
        """Whether the entry belongs on this page or a later one."""
        return (
            entry.name > self.after
            and self.search.casefold() in entry.name.casefold()
            and self.version in (LATEST, entry.version)
            and (self.updated_since is None or entry.updated_at >= self.updated_since)
        )


def parse_query(
    limit: str | None = None,
    cursor: str | None = None,
    search: str | None = None,
    version: str | None = None,
    updated_since: str | None = None,
) -> Selection:
    """Validate the parameters. None, and empty for all but `limit`, means not given.

    Raises:
        Rejected: names the invalid parameter, also in `facts["parameter"]`.
    """
    return Selection(
        limit=DEFAULT_LIMIT if limit is None else _limit(limit),
        after=_after(cursor) if cursor else "",
        search=search or "",
        version=version or LATEST,
        updated_since=_time(updated_since) if updated_since else None,
    )


def page(listing: Listing, query: Selection) -> JsonObject:
    """Return the page with its count and, when there is more, the cursor of the next one."""
    found = list(islice(filter(query.selects, listing.servers), query.limit + 1))
    shown = found[: query.limit]
    metadata: JsonObject = {"count": len(shown)}
    if len(found) > len(shown):
        metadata["nextCursor"] = _cursor(shown[-1].name)
    return {"servers": [entry.document for entry in shown], "metadata": metadata}


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()


def _limit(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and 1 <= int(value) <= LARGEST_LIMIT):
        raise _refused("limit", f"must be a whole number from 1 to {LARGEST_LIMIT}")
    return int(value)


def _after(cursor: str) -> str:
    try:
        name = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        name = ""
    if not is_server_name(name):
        raise _refused("cursor", "must be a nextCursor from an answer of this registry")
    return name


def _time(value: str) -> datetime:
    try:
        # A plus that was not URL-encoded arrives as a space.
        time = datetime.fromisoformat(value.strip().replace(" ", "+") if "T" in value else "")
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise _refused("updated_since", "must be an RFC 3339 time such as 2026-03-12T10:00:00Z")
    return time


def _refused(parameter: str, reason: str) -> Rejected:
    return Rejected(f"{parameter} {reason}", code="bad_parameter", parameter=parameter)


_ORIGIN = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", b"ETag")]
_PREFLIGHT = [
    *_ORIGIN,
    (b"access-control-allow-methods", b"GET, HEAD, OPTIONS"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
]


class Cors:
    """The ASGI application around `inner`, which sees GET requests only."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            await send({"type": "http.response.start", "status": 204, "headers": _PREFLIGHT})
            await send({"type": "http.response.body"})
            return

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_ORIGIN]}
            await send(message)

        # The server below drops the body of an answer to HEAD by itself.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._inner({**scope, "method": method}, receive, send_open)


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


_TAG = re.compile(r'(?:W/)?("[^"]*")')


def is_fresh(if_none_match: str | None, etag: str) -> bool:
    """Whether the caller already has the version with this `etag`."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or etag.removeprefix("W/") in _TAG.findall(if_none_match)
