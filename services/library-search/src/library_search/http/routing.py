"""The HTTP interface: `/mcp` for callers, `/admin/api/` for admins.

The bearer of each request is resolved. The libraries that it may read are passed to the tools, and are not kept.
"""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from library_search.mcp.tool_server import CALLER, READABLE
from library_search.metrics import Metrics
from library_search.model import Readable
from pallas_contracts.auth import AUTH_FAILURES, LONGEST_BEARER, ResolveBearer, Resolved
from pallas_contracts.errors import Denied, PallasError
from pallas_runtime.front import of_caller
from pallas_runtime.http.bodies import TooLarge, UnderWay, lower_media_type, read_body, replayed

_USES_UP = "tools/call"

type Resolve = Callable[[ResolveBearer], Awaitable[Resolved]]


class Bearers:
    """Resolves bearers.

    Counts the refusals that are made here. The resolver counts its own.
    """

    def __init__(self, resolve: Resolve, metrics: Metrics) -> None:
        self._resolve = resolve
        self._failures = metrics.auth_failures

    def bearer_of(self, headers: Headers) -> str:
        """The bearer of a request.

        Raises:
            Denied: it is missing or malformed.
        """
        given = headers.getlist("authorization")
        scheme, _, bearer = given[0].strip().partition(" ") if given else ("", "", "")
        bearer = bearer.strip()
        if scheme.lower() != "bearer" or not bearer:
            raise self._refused("missing")
        if len(given) > 1 or len(bearer) > LONGEST_BEARER:
            raise self._refused("malformed")
        return bearer

    async def resolve(self, bearer: str, body: bytes) -> tuple[str, Readable]:
        """The caller, and the libraries that it may read. A tool call uses a per-turn token up.

        Raises:
            Denied: the bearer is refused; the message is the contract's.
            PallasError: the bearer cannot be checked right now.
        """
        question = ResolveBearer(bearer=bearer, uses_up=calls_a_tool(body), identities=True)
        resolved = await self._resolve(question)
        who = resolved.principal
        return f"{who.type} {who.id} {who.name}", {uid: resolved.identities.get(uid) for uid in resolved.libraries}

    def _refused(self, reason: str) -> Denied:
        self._failures.labels(reason).inc()
        return Denied(AUTH_FAILURES[reason], code=reason)


def calls_a_tool(body: bytes) -> bool:
    """Whether a JSON-RPC message may be read as a tool call, even if it names its method twice."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or ("method", _USES_UP) in pairs

    try:
        json.loads(body, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return found
    return found


LARGEST_MESSAGE = 1024 * 1024


class Http:
    """The ASGI application. `mcp` serves messages whose bearer was accepted."""

    def __init__(self, mcp: ASGIApp, admin: ASGIApp, bearers: Bearers) -> None:
        self._mcp = mcp
        self._admin = admin
        self._bearers = bearers
        self._under_way = UnderWay()

    async def finish(self) -> None:
        """Refuse new requests, and wait for those under way."""
        await self._under_way.finish()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._under_way.stopping:
            answer = unavailable("The service is shutting down. Try again.")
            answer.headers["connection"] = "close"
            await answer(scope, receive, send)
            return
        with self._under_way.serving():
            try:
                if scope["path"].startswith("/admin/"):
                    await self._admin(scope, receive, send)
                else:
                    await self._serve_mcp(scope, receive, send)
            except ClientDisconnect:
                pass

    async def _serve_mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = await self._receive(scope, receive)
        if isinstance(received, Response):
            await received(scope, receive, send)
            return
        bearer, body = received
        lower_media_type(scope)
        with of_caller(scope["headers"], body, inside=True):
            refusal = await self._admit(scope, bearer, body)
            if refusal is not None:
                await refusal(scope, receive, send)
            else:
                await self._mcp(scope, replayed(body, receive), send)

    async def _receive(self, scope: Scope, receive: Receive) -> tuple[str, bytes] | Response:
        """The bearer and the body of a message, or the refusal."""
        if scope["path"].rstrip("/") != "/mcp":
            return mcp_error(404, "Not found. The MCP endpoint is /mcp.")
        if scope["method"] != "POST":
            return mcp_error(405, "Method not allowed. Use POST.", {"allow": "POST"})
        try:
            bearer = self._bearers.bearer_of(Headers(scope=scope))
            before = partial(self._bearers.resolve, bearer, b"")
            return bearer, await read_body(scope, receive, LARGEST_MESSAGE, before=before)
        except Denied as error:
            return unauthorized(error)
        except TooLarge as error:
            return mcp_error(413, error.message)
        except PallasError:
            return _not_checked()

    async def _admit(self, scope: Scope, bearer: str, body: bytes) -> Response | None:
        """Resolve the bearer for the tools. Returns the refusal, None if the bearer is accepted."""
        try:
            caller, readable = await self._bearers.resolve(bearer, body)
        except Denied as error:
            return unauthorized(error)
        except PallasError:  # `Rejected` too: only `Denied` is about the bearer
            return _not_checked()
        scope["state"] = {**scope.get("state", {}), READABLE: readable, CALLER: caller}
        return None


def _not_checked() -> Response:
    return unavailable("The bearer cannot be checked right now. Try again shortly.")


INVALID_REQUEST = -32600
RETRY_AFTER_SECONDS = 1


def mcp_error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An HTTP error for MCP clients."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return Response(json.dumps(body), status, headers, media_type="application/json")


def unauthorized(error: Denied) -> Response:
    """401 with the contract's message. The exact reason is counted, but not disclosed."""
    challenge = "Bearer"
    if error.code != "missing":
        challenge += f' error="invalid_token", error_description="{error.message}"'
    return mcp_error(401, error.message, {"www-authenticate": challenge})


def unavailable(message: str) -> Response:
    """503 with `Retry-After`."""
    return mcp_error(503, message, {"retry-after": str(RETRY_AFTER_SECONDS)})
