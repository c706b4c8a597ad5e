"""What every session of the SDK with a server of others needs: bounded answers, bounded lists, and calls.

The SDK ends a whole session when the transport of one request fails, unpacks what is compressed, follows cursors for
ever, keeps all questions of a server, and checks results with regular expressions of Python, which can take for ever.
Nothing here does.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self, override

import httpx2
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    JSONRPCRequest,
    PaginatedRequestParams,
    Tool,
)
from pydantic import TypeAdapter

from pallas_mcp_calls.exchange import Exchange, current
from pallas_mcp_calls.http import bounded_body, hurry_replies, unreachable, why_unreadable
from pallas_mcp_calls.pace import Pace

MOST_PAGES, MOST_TOOLS = 20, 1_000
_BURST_QUESTIONS, _QUESTIONS_PER_SECOND = 100.0, 1.0
_RESULT = TypeAdapter[CallToolResult | InputRequiredResult](CallToolResult | InputRequiredResult)


_NOISY = ("client", "mcp.client.stdio", "mcp.client.streamable_http", "mcp.shared.jsonrpc_dispatcher")
"""Loggers of the SDK. They log what servers send, as often as these like; errors tell callers the same."""


def silence_sdk() -> None:
    """Let the SDK log nothing about answers."""
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class BoundedTransport(httpx2.AsyncBaseTransport):
    """`inner` for one session: a failed request is an answer with an error status, and no answer is without bounds.

    Until the server has answered anything, failures are raised: there is no session yet, and they say why. If `raises`,
    all are. What went wrong is noted in the exchange that is `current`, if there is one.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, *, raises: bool = False) -> None:
        silence_sdk()
        self._inner = inner
        self._raises = raises
        self._met = False

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = current.get() or Exchange()
        request.headers["accept-encoding"] = "identity"
        hurry_replies(request)
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if self._raises or not self._met:
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


class Messages:
    """The read stream of a transport. Of the questions of a server that asks for ever, nobody hears most.

    The SDK keeps each question until it is answered, and the server may never take the answer.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._questions = Pace(_BURST_QUESTIONS, _QUESTIONS_PER_SECOND)

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent, as the SDK asks for it."""
        return getattr(self._inner, "last_context", None)

    def usable(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """The message as it is passed on."""
        return item

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        while True:
            item = await self._inner.receive()
            if not self._is_too_much(item):
                return self.usable(item)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item = await self._inner.__anext__()
            if not self._is_too_much(item):
                return self.usable(item)

    async def aclose(self) -> None:
        """Close it."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _is_too_much(self, item: SessionMessage | Exception) -> bool:
        if not isinstance(item, SessionMessage) or not isinstance(item.message, JSONRPCRequest):
            return False
        late = self._questions.take(1) > 0
        if late:
            self._questions.take(-1)  # what is not heard costs nothing
        return late


@asynccontextmanager
async def hearing(transport: Any) -> AsyncGenerator[tuple[Any, Any]]:
    """A transport of the SDK, with `Messages`."""
    async with transport as (read, write):
        yield Messages(read), write


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
