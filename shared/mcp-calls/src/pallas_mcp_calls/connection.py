"""One connection to one agent, shared by all calls of it. A task of its own holds it open, as the SDK demands."""

import asyncio
import time
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, cast

import httpx2
from mcp import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    PARSE_ERROR,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    ProgressNotification,
    Tool,
    ToolListChangedNotification,
)

from pallas_mcp_calls.exchange import LARGEST_ANSWER, Exchange, current
from pallas_mcp_calls.http import NO_MCP, BoundedClient
from pallas_mcp_calls.model import CallFailed, Progress, Target
from pallas_mcp_calls.questions import CANCELLED, ask
from pallas_mcp_calls.sessions import hearing, list_tools

OPEN_SECONDS = 20.0
CLOSE_SECONDS = 2.0
_TOOLS_SECONDS = 60.0


@cache
def _about_us() -> Implementation:
    return Implementation(name="pallas", version=version("pallas-mcp-calls"))


@dataclass(frozen=True, slots=True)
class _Listed:
    tools: Sequence[Tool]
    until: float


class Connection:
    """A connection that is opening, open or closed. `leases` counts its users; once `retired` it gets no new one.

    `old`: it is of a revision with a handshake, although the agent has a newer one.
    """

    def __init__(self, target: Target, transport: httpx2.AsyncBaseTransport, *, old: bool = False) -> None:
        self.leases = 0
        self.retired = False
        self._exchanges = dict[str | int, Exchange]()
        self._listed: _Listed | None = None
        self._closing = asyncio.Event()
        self._opened = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(_retrieve)
        http = BoundedClient(transport, target.token)
        self._client = Client(
            hearing(streamable_http_client(target.url, http_client=http, max_sse_event_size=2 * LARGEST_ANSWER)),
            client_info=_about_us(),
            elicitation_callback=self._asked,
            message_handler=self._heard,
            cache=None,
            mode="legacy" if old else "auto",
        )
        # It outlives the call that opens it, so it must not have that call's context.
        self.task = asyncio.create_task(self._hold(), context=Context())

    @property
    def usable(self) -> bool:
        """Whether calls can be made, now or once it is open."""
        return not self.retired and not self.task.done() and not self._closing.is_set()

    async def client(self) -> Client:
        """The client, as soon as the connection is open.

        Raises:
            CallFailed: it cannot be opened.
        """
        return await asyncio.shield(self._opened)

    def close(self) -> None:
        """Close it soon. Calls on it are lost. If it is opening, it opens first: the server may be making a session."""
        self._closing.set()

    async def closed(self) -> None:
        """Wait until it is closed, which is not long once it has opened; when this is cancelled, it is cut off."""
        try:
            await asyncio.wait({self.task}, timeout=CLOSE_SECONDS if self._opened.done() else OPEN_SECONDS)
        finally:
            self.task.cancel()
            await asyncio.wait({self.task})

    async def _hold(self) -> None:
        opening = Exchange(opening=True)
        current.set(opening)
        try:
            async with asyncio.timeout(OPEN_SECONDS) as deadline, self._client:
                deadline.reschedule(None)
                opening.opening = False
                self._opened.set_result(self._client)
                await self._closing.wait()
                deadline.reschedule(asyncio.get_running_loop().time() + CLOSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - the SDK raises whatever it was, in groups
            self._fail(_why_not_open(error, opening))
        finally:
            self._closing.set()
            self._fail(CallFailed("the connection to the agent was closed", code="unreachable", lost=True, sent=False))

    def _fail(self, failure: CallFailed) -> None:
        if not self._opened.done():
            self._opened.set_exception(failure)

    def follow(self, token: str, exchange: Exchange) -> None:
        """Give the exchange the progress that comes under this token."""
        self._exchanges[token] = exchange

    def unfollow(self, token: str) -> None:
        """End `follow`."""
        self._exchanges.pop(token, None)

    async def tools(self) -> Sequence[Tool]:
        """The agent's tools, as listed within the last minute.

        Raises:
            MCPError: the agent refuses to list them.
            ValidationError: what it lists is no list of tools.
        """
        if self._listed is None or time.monotonic() > self._listed.until:
            found = await list_tools((await self.client()).session)
            self._listed = _Listed(found, time.monotonic() + _TOOLS_SECONDS)
        return self._listed.tools

    async def _heard(self, message: IncomingMessage) -> None:
        """A notification. The SDK runs this in the order of arrival as long as nothing is awaited."""
        match message:
            case ProgressNotification(params=params):
                exchange = self._exchanges.get(params.progress_token)
                if exchange is not None and exchange.on_progress is not None:
                    exchange.on_progress(Progress(params.progress, params.total, params.message))
            case ToolListChangedNotification():
                self._listed = None
            case _:
                pass

    async def _asked(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """A question of a server of the handshake era. If it does not say for which call, there must be only one."""
        exchange = current.get()
        if exchange is None or exchange.on_question is None:
            asking = [one for one in self._exchanges.values() if one.on_question is not None]
            exchange = asking[0] if len(asking) == 1 else None
        return await exchange.waiting_for(ask(exchange, params), CANCELLED) if exchange is not None else CANCELLED


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Nobody may be waiting for a connection that fails to open, so its failure is read here."""
    if not future.cancelled():
        future.exception()


def _why_not_open(error: Exception, opening: Exchange) -> CallFailed:
    inner = innermost(error)
    match inner:
        case CallFailed():
            return inner
        case TimeoutError():
            return CallFailed("the agent did not answer in time", code="unreachable", lost=True, sent=False)
        case MCPError() if opening.fault is not None:
            fault = opening.fault
            return CallFailed(str(fault), code=fault.code, lost=fault.lost, sent=False)
        case MCPError() if inner.code != PARSE_ERROR:
            return CallFailed(f"the agent refuses the connection: {one_line(inner)}", code="protocol", sent=False)
        case _:
            return CallFailed(NO_MCP, code="not_mcp", sent=False)


def innermost(error: BaseException) -> BaseException:
    """The first error inside of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def one_line(error: BaseException, limit: int = 300) -> str:
    """An error as one line."""
    return " ".join(str(error).split())[:limit] or type(error).__name__
