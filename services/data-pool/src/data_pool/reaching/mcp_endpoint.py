"""Calls of an agent at its endpoint by MCP, with the official client: one session for each agent, which is remade."""

import asyncio
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mcp import MCPError
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, CallToolResult
from pydantic import ValidationError

from data_pool.reaching.endpoint import CONNECT_SECONDS, GuardedTransport, Network, guarded_client
from data_pool.reaching.link import LARGEST_ANSWER, BadAnswer, Broken, Link, NotSent, Reply
from pallas_contracts.bounds import JsonObject
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.messages import AGENT_ERROR, RpcError
from pallas_jsonrpc.strict_json import is_too_deep, loads
from pallas_mcp_calls.exchange import Exchange
from pallas_mcp_calls.sessions import BoundedTransport, call_once, hearing

log = logging.getLogger(__name__)

# Only the text of an error says what happened to a request over HTTP: the SDK's text, or that of the server.
_SESSION_GONE = re.compile(
    r"(?i)\bsession (?:id )?(?:was )?(?:terminated|not found|expired)|\b(?:no valid|unknown|invalid) session"
)
_NO_ANSWER = "Server returned an error response"


@dataclass(eq=False)
class McpLink(Link):
    """An agent at `url`. `owner` is the task in which the session is opened and closed, as the SDK demands."""

    url: str
    networks: Sequence[Network]
    _owner: asyncio.Task[None] | None = None
    _client: asyncio.Future[Client] | None = None
    _end: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, params: JsonObject, connect: float) -> Reply:
        """Call the agent (see `Link`). A session that the server has forgotten is remade; it has not made the call."""
        for last in (False, True):
            client, exchange = await self._connected(connect), Exchange()
            try:
                return _reply(await call_once(client.session, params["function"], params["input"], exchange))
            except ValidationError:
                raise BadAnswer("it is not one of MCP") from None
            except MCPError as error:
                if _is_gone(error, exchange) and not last:
                    await self.close()
                    continue
                if error.code != CONNECTION_CLOSED and error.message != _NO_ANSWER and exchange.fault is None:
                    return Reply(error=RpcError(error.code, error.message))
                await self.close()
                raise _failure(exchange) from error
        raise AssertionError("the second attempt returns or raises")

    async def _connected(self, seconds: float) -> Client:
        if self._client is None or (self._client.done() and self._client.exception() is not None):
            await self.close()
            self._client, self._end = asyncio.get_running_loop().create_future(), asyncio.Event()
            self._owner = asyncio.create_task(self._own(self._client, self._end), name="mcp session")
            self._owner.add_done_callback(_ended)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._client)
        except (ConnectionError, TimeoutError) as error:
            raise NotSent("its endpoint does not answer") from error

    async def _own(self, connected: asyncio.Future[Client], end: asyncio.Event) -> None:
        try:
            http = guarded_client(BoundedTransport(GuardedTransport(self.networks)))
            async with http, asyncio.timeout(CONNECT_SECONDS) as limit:
                transport: Any = streamable_http_client(self.url, http_client=http, max_sse_event_size=LARGEST_ANSWER)
                async with Client(hearing(transport), cache=None) as client:
                    limit.reschedule(None)
                    connected.set_result(client)
                    await end.wait()
        finally:
            if not connected.done():
                connected.set_exception(ConnectionError())
                connected.exception()  # also if nobody waits for it any more

    async def close(self) -> None:
        """End the session, if there is one; the next call makes another."""
        self._end.set()
        owner, self._owner, self._client = self._owner, None, None
        if owner is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    await asyncio.wait({owner})
            owner.cancel()


def _is_gone(error: MCPError, exchange: Exchange) -> bool:
    """Whether the server has refused the call for want of the session: by its words, or by the HTTP status alone.

    The same words in an answer with another status may be those of the tool, which has been called then.
    """
    return exchange.refused and (error.message == _NO_ANSWER or _SESSION_GONE.search(error.message) is not None)


def _failure(exchange: Exchange) -> Exception:
    fault = exchange.fault
    if exchange.refused:
        return NotSent(f"its endpoint answers with HTTP status {exchange.status}")
    if fault is None or (fault.lost and fault.sent):
        return Broken("the connection broke during the call")
    return BadAnswer(str(fault)) if fault.sent else NotSent(str(fault))


def _ended(owner: asyncio.Task[None]) -> None:
    """The SDK raises many kinds of errors. All mean that there is no session; their texts may have addresses."""
    if not owner.cancelled() and (error := owner.exception()) is not None:
        log.info("the session with an MCP endpoint has ended", extra={"reason": type(error).__name__})


def _reply(result: CallToolResult) -> Reply:
    content = tuple(block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content)
    if is_too_deep([result.structured_content, *content]):
        raise BadAnswer("it is nested too deeply")
    text = "\n".join(block["text"] for block in content if block["type"] == "text")
    if result.is_error:
        return Reply(error=RpcError(AGENT_ERROR, text))
    if result.structured_content is not None:
        return Reply(value=result.structured_content, content=content)
    with suppress(Rejected):
        return Reply(value=loads(text), content=content)
    return Reply(value=text, content=content)
