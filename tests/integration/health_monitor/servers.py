"""Downstream servers to be probed: real MCP servers of the SDK, and some that misbehave."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.embedded import free_port

from pallas_runtime.http.listener import bind, listening


@dataclass(frozen=True)
class ReceivedRequest:
    """One request: the HTTP method and path, the MCP method and the headers in lower case."""

    verb: str
    path: str
    method: str | None
    headers: dict[str, str]


@dataclass
class Downstream:
    """An application on one port, which can be started and stopped and keeps its requests."""

    port: int = field(default_factory=free_port)
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    deleted: asyncio.Event = field(default_factory=asyncio.Event)
    _running: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def count(self, method: str) -> int:
        """How often an MCP method was asked for."""
        return sum(request.method == method for request in self.requests)

    async def start(self, app: ASGIApp) -> None:
        """Serve `app`."""
        self._running = AsyncExitStack()
        listener = bind("127.0.0.1", self.port)
        await self._running.enter_async_context(listening(self._recorded(app), listener, drain_seconds=1))

    async def stop(self) -> None:
        """Refuse connections from now on."""
        await self._running.aclose()

    def _recorded(self, app: ASGIApp) -> ASGIApp:
        async def record(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            body = await request.body()
            method = json.loads(body).get("method") if body else None
            self.requests.append(ReceivedRequest(request.method, request.url.path, method, dict(request.headers)))

            async def again() -> dict[str, object]:
                return {"type": "http.request", "body": body, "more_body": False}

            await app(scope, _Replayed(again, receive), send)
            if request.method == "DELETE":
                self.deleted.set()

        return record


class _Replayed:
    """Receives the body that is already read, and then later messages."""

    def __init__(self, first: Receive, rest: Receive) -> None:
        self._first: Receive | None = first
        self._rest = rest

    async def __call__(self) -> dict[str, object]:
        first, self._first = self._first, None
        return dict(await (first or self._rest)())


@asynccontextmanager
async def mcp_app(*, json_response: bool = False) -> AsyncGenerator[ASGIApp]:
    """An MCP server of the official SDK that keeps sessions; it serves every revision."""
    manager = StreamableHTTPSessionManager(Server("downstream"), json_response=json_response)
    async with manager.run():
        yield manager.handle_request


def modern_only(app: ASGIApp) -> ASGIApp:
    """Refuse the handshake revisions, as the revision of 2026-07-28 says to."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if Request(scope).headers.get("mcp-protocol-version") == "2026-07-28":
            await app(scope, receive, send)
            return
        data = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        error = {"code": -32022, "message": "unsupported protocol version", "data": data}
        await JSONResponse({"jsonrpc": "2.0", "id": 1, "error": error}, 400)(scope, receive, send)

    return serve


def hung(released: asyncio.Event) -> ASGIApp:
    """Take requests and answer none until `released`."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await released.wait()
        await JSONResponse({}, 503)(scope, receive, send)

    return serve


def answering(status: int, body: object) -> ASGIApp:
    """Answer everything with this."""
    return JSONResponse(body, status)


def late(released: asyncio.Event, *, begins: bool) -> ASGIApp:
    """Make a session, and answer once `released`; `begins`: the answer begins before, with the session's id."""
    headers = [(b"content-type", b"application/json"), (b"mcp-session-id", b"late")]

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "DELETE":
            await JSONResponse({})(scope, receive, send)
            return
        if not begins:
            await released.wait()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"jsonrpc": "2.0", ', "more_body": True})
        await released.wait()
        await send({"type": "http.response.body", "body": b'"id": 1, "result": {}}'})

    return serve
