"""What every session of the SDK with a server of others needs: bounded answers, bounded lists, and calls.

The SDK ends a whole session when the transport of one request fails, unpacks what is compressed, follows cursors for
ever, and checks results with regular expressions of Python, which can take for ever. Nothing here does.
"""

import logging
from typing import Any, override

import httpx2
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
)
from pydantic import TypeAdapter

from pallas_mcp_calls.exchange import Exchange, current
from pallas_mcp_calls.http import bounded_body, unreachable, why_unreadable

MOST_PAGES, MOST_TOOLS = 20, 1_000
_RESULT = TypeAdapter[CallToolResult | InputRequiredResult](CallToolResult | InputRequiredResult)


_NOISY = ("client", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher")
"""Loggers of the SDK. They log what servers send, as often as these like; errors tell callers the same."""


def silence_sdk() -> None:
    """Let the SDK log nothing about answers."""
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class BoundedTransport(httpx2.AsyncBaseTransport):
    """`inner` for one session: a failed request is an answer with an error status, and no answer is without bounds.

    Until the server has answered anything, failures are raised: there is no session yet, and they say why. What went
    wrong is noted in the exchange that is `current`, if there is one.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        silence_sdk()
        self._inner = inner
        self._met = False

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = current.get() or Exchange()
        request.headers["accept-encoding"] = "identity"
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if not self._met:
                raise
            exchange.status, exchange.fault = None, unreachable(error)
            return httpx2.Response(httpx2.codes.SERVICE_UNAVAILABLE, request=request)
        self._met = True
        exchange.status = response.status_code
        if response.is_success and (fault := why_unreadable(response, request.method)) is not None:
            exchange.fault = fault
            await response.aclose()
            return httpx2.Response(httpx2.codes.BAD_GATEWAY, request=request)
        bounded_body(response, exchange)
        return response

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


async def list_tools(session: ClientSession) -> list[Tool]:
    """All tools of a server, if they are not too many; the first ones otherwise. A cursor that comes again is the end.

    Raises:
        MCPError: the server refuses to list them.
        ValidationError: what it lists is no list of tools.
    """
    found, cursors = list[Tool](), set[str | None]()
    cursor: str | None = None
    while cursor not in cursors and len(cursors) < MOST_PAGES and len(found) < MOST_TOOLS:
        cursors.add(cursor)
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        found.extend(page.tools)
        cursor = page.next_cursor
    return found[:MOST_TOOLS]


async def send_call(
    session: ClientSession, params: CallToolRequestParams, progress: ProgressFnT | None = None
) -> CallToolResult | InputRequiredResult:
    """Send a call. If the server wants arguments repeated in headers, the SDK must have listed its tools before.

    It is not `session.call_tool`, which checks the result against the tool's schema, and lists tools to get that.

    Raises:
        MCPError: the server refuses the call, or the connection is lost.
        ValidationError: the answer is not one of MCP.
    """
    request = CallToolRequest(params=params)
    try:
        return await session.send_request(request, _RESULT, progress_callback=progress)
    except MCPError as error:
        if error.code != HEADER_MISMATCH:
            raise
        await list_tools(session)
        return await session.send_request(request, _RESULT, progress_callback=progress)


async def call_once(
    session: ClientSession,
    name: str,
    arguments: dict[str, Any],
    exchange: Exchange,
    progress: ProgressFnT | None = None,
) -> CallToolResult:
    """Call a tool that can ask for nothing. After an error, the exchange has its `fault` or the HTTP `status`, if any.

    Raises:
        MCPError: the server refuses the call, the connection is lost, or the answer cannot be read.
        ValidationError: the answer is not one of MCP.
    """
    entered = current.set(exchange)
    try:
        result = await send_call(session, CallToolRequestParams(name=name, arguments=arguments), progress)
    finally:
        current.reset(entered)
    if isinstance(result, CallToolResult):
        return result
    raise MCPError(INVALID_REQUEST, "the tool asks for input, which it cannot get here")
