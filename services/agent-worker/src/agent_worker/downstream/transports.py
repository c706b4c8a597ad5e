"""The transports to downstream servers: Streamable HTTP with static headers, or a child process over stdio.

This module imports the MCP SDK, which takes a second, so it is imported only to open a connection.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from opentelemetry import propagate

from pallas_teams.model import HttpServer, ServerConfig, StdioServer, reveal

_HTTP_TIMEOUT = httpx2.Timeout(10.0, read=None, pool=None)
"""Seconds. Reads have no timeout: the time limit of the turn bounds a tool call."""

_HTTP_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=2.0)
"""Servers close idle connections, many after 5 s. A call that is sent at that moment fails, so the client is first."""

type Streams = tuple[Any, Any]
"""The read and write streams of a transport; the SDK does not export their type."""


def open_transport(server: ServerConfig, on_end: Callable[[], None]) -> AbstractAsyncContextManager[Streams]:
    """Return the transport of `server`, not yet entered.

    `on_end` is called when a child process closes its output. Over HTTP there is no connection to lose: only requests
    fail.
    """
    return _stdio(server, on_end) if isinstance(server, StdioServer) else _http(server)


class _Contained(httpx2.AsyncHTTPTransport):
    """Turns a transport error into a 503 of that request, once the server has answered a first request.

    When a request raises, the SDK ends the whole client, and with it the calls of all other turns.
    """

    def __init__(self) -> None:
        super().__init__(limits=_HTTP_LIMITS)
        self._met = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with its trace context."""
        propagate.inject(request.headers)
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError:
            if not self._met:
                raise
            return httpx2.Response(httpx2.codes.SERVICE_UNAVAILABLE, request=request)
        self._met = True
        return response


@asynccontextmanager
async def _http(server: HttpServer) -> AsyncGenerator[Streams]:
    async with (
        httpx2.AsyncClient(headers=reveal(server.headers), timeout=_HTTP_TIMEOUT, transport=_Contained()) as http,
        streamable_http_client(server.url.get_secret_value(), http_client=http) as streams,
    ):
        yield streams


@asynccontextmanager
async def _stdio(server: StdioServer, on_end: Callable[[], None]) -> AsyncGenerator[Streams]:
    command = StdioServerParameters(
        command=server.command.get_secret_value(),
        args=[argument.get_secret_value() for argument in server.args],
        env=reveal(server.env),
        cwd=server.cwd,
    )
    async with stdio_client(command) as (read, write), anyio.create_task_group() as tasks:
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def forward() -> None:
            async with send:
                async for message in read:
                    await send.send(message)
            on_end()

        tasks.start_soon(forward)
        try:
            yield receive, write
        finally:
            tasks.cancel_scope.cancel()
            receive.close()
