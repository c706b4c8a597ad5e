"""The transports to downstream servers: Streamable HTTP with static headers, or a child process over stdio.

This module imports the MCP SDK, which takes a second, so it is imported only to open a connection.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, override

import httpx2
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry import propagate

from agent_worker.downstream.incoming import Incoming, LeftOut
from pallas_mcp_calls.exchange import LARGEST_ANSWER
from pallas_mcp_calls.http import open_transport as open_http
from pallas_mcp_calls.readable import LINES, ValidBody
from pallas_mcp_calls.sessions import BoundedTransport, silence_sdk
from pallas_teams.model import HttpServer, ServerConfig, StdioServer, reveal

_HTTP_TIMEOUT = httpx2.Timeout(10.0, read=None, pool=None)
"""Seconds. Reads have no timeout: the time limit of the turn bounds a tool call."""

_END_TIMEOUT = httpx2.Timeout(2.0).as_dict()
"""Seconds for the end of a session. The next one does not begin before."""

type Streams = tuple[Any, Any]
"""The read and write streams of a transport; the SDK does not export their type."""


@asynccontextmanager
async def open_transport(
    server: ServerConfig, on_end: Callable[[], None], left_out: LeftOut
) -> AsyncGenerator[Streams]:
    """The transport of `server`.

    `on_end` is called when nothing more can come from the server. Over HTTP that is rare: only requests fail.
    `left_out` hears of tools that cannot be used.
    """
    silence_sdk()
    async with _stdio(server) if isinstance(server, StdioServer) else _http(server) as (read, write):
        yield Incoming(read, on_end, left_out), write


class _Traced(BoundedTransport):
    """Sends the trace context with each request, and makes answers valid."""

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        propagate.inject(request.headers)
        if request.method == "DELETE":
            request.extensions["timeout"] = _END_TIMEOUT
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = ValidBody(response.stream)
        return response


@asynccontextmanager
async def _http(server: HttpServer) -> AsyncGenerator[Streams]:
    transport = _Traced(open_http())
    url, most = server.url.get_secret_value(), LARGEST_ANSWER
    async with (
        httpx2.AsyncClient(headers=reveal(server.headers), timeout=_HTTP_TIMEOUT, transport=transport) as http,
        streamable_http_client(url, http_client=http, max_sse_event_size=most) as streams,
    ):
        yield streams


def _stdio(server: StdioServer) -> AbstractAsyncContextManager[Streams]:
    command = StdioServerParameters(
        command=server.command.get_secret_value(),
        args=[argument.get_secret_value() for argument in server.args],
        env=reveal(server.env),
        cwd=server.cwd,
        encoding=LINES,
        encoding_error_handler="replace",  # else one byte that is no UTF-8 ends the reading, and nobody notices
    )
    return stdio_client(command)
