"""The HTTP interface: `/mcp` for callers, `/admin/api/` for admins.

The bearer of each request is resolved. The libraries that it may read are passed to the tools, and are not kept.
"""

from functools import partial

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from library_search.http.bearers import Bearers
from library_search.http.refusals import mcp_error, unauthorized, unavailable
from library_search.mcp.tool_server import CALLER, READABLE
from pallas_contracts.errors import Denied, PallasError
from pallas_runtime.caller_trace import of_caller
from pallas_runtime.http.bodies import TooLarge, TooSlow, lower_media_type, read_body, replayed
from pallas_runtime.http.under_way import UnderWay

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
        except TooSlow as error:
            return mcp_error(408, error.message)
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
