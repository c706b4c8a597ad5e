"""An agent made with FastMCP, in the test's process."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, override

from fastmcp import Context, FastMCP
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.workspaces_world.served import Served


@dataclass
class Name:
    """What the agent asks for."""

    name: str


class FastAgent(Served):
    """The agent `harper`. `health` is what `get_health` answers; a message `wait` waits for `go`.

    `old`: it is of the time before revision 2026-07-28.
    """

    def __init__(self, *, old: bool = False) -> None:
        self._server = FastMCP("harper", version="1.0.0")
        self._server.tool(self.get_health)
        self._server.tool(self.harper)
        self._http = self._server.http_app(path="/mcp")
        self._lifespan = AsyncExitStack()
        super().__init__(_refusing_the_new(self._http) if old else self._http)
        self.health: Any = {"status": "ok", "timestamp": "2026-03-12T15:42:00Z"}
        self.waiting, self.go, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"{self.base}/mcp"

    async def get_health(self) -> str:
        """Returns the health status of this agent and its downstream dependencies."""
        return self.health if isinstance(self.health, str) else json.dumps(self.health)

    async def harper(self, message: str, ctx: Context, history: list[dict[str, Any]] | None = None) -> str:
        """Answers a message."""
        for step in range(1, 4):
            await ctx.report_progress(step, None, f"harper step {step} (llm)")
        if message == "ask":
            reply = await ctx.elicit("Who?", Name)
            return f"{reply.action}: hello {reply.data.name if reply.action == 'accept' else 'nobody'}"
        if message == "fail":
            raise ValueError("it failed")
        if message == "wait":
            self.waiting.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        return f"echo: {message} after {len(history or ())}"

    @override
    async def start(self) -> None:
        await self._lifespan.enter_async_context(self._http.router.lifespan_context(self._http))
        await super().start()

    @override
    async def stop(self) -> None:
        await super().stop()
        await self._lifespan.aclose()


def _refusing_the_new(inner: ASGIApp) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope.get("headers", ())).get(b"mcp-protocol-version", b"") < b"2026":
            await inner(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"Bad Request: Unsupported protocol version"})

    return app
