"""Calls agents over MCP, in any revision of the protocol. Nothing a server does can harm other calls or the process."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx2
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Tool
from pydantic import ValidationError

from pallas_mcp_calls.answers import answer_of, failure_of, is_stale, text_of
from pallas_mcp_calls.connection import Connection
from pallas_mcp_calls.exchange import Exchange, current
from pallas_mcp_calls.feedback import Feedback
from pallas_mcp_calls.health import health_of
from pallas_mcp_calls.http import open_transport
from pallas_mcp_calls.model import (
    CANCEL_META,
    KEY_META,
    TEXT_META,
    CallAnswer,
    CallFailed,
    HealthReport,
    OnProgress,
    OnQuestion,
    OnText,
    Question,
    Reply,
    Target,
)
from pallas_mcp_calls.pool import Pool
from pallas_mcp_calls.questions import cannot_ask
from pallas_mcp_calls.rounds import call_tool
from pallas_mcp_calls.sessions import silence_sdk
from pallas_mcp_calls.tools import GET_HEALTH, choose, fitting

HEALTH_SECONDS = 3.0
IDLE_SECONDS = 150.0
_LARGEST_HEALTH = 1024 * 1024

type Act[R] = Callable[[Connection], Awaitable[R]]


class AgentCalls:
    """Makes calls. `transport` decides where connections may lead; it is closed with this, as all connections are.

    A connection that nobody has used for `idle` seconds is closed.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport | None = None, *, idle: float = IDLE_SECONDS) -> None:
        self._transport = transport or open_transport()
        self._pool = Pool(self._transport, idle)
        self._checks = set[asyncio.Task[HealthReport]]()
        silence_sdk()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections. Calls that run are lost."""
        await self._pool.close()
        await self._transport.aclose()

    async def call(
        self,
        target: Target,
        tool: str | None,
        arguments: Mapping[str, Any],
        *,
        agent: str | None = None,
        key: str | None = None,
        on_progress: OnProgress | None = None,
        on_text: OnText | None = None,
        on_question: OnQuestion | None = None,
    ) -> CallAnswer:
        """Call a tool. Cancelling this cancels the call at the agent, but not one with a key: see `cancel`.

        `tool` None: the agent's list decides, by the name of the `agent` (its server id), and arguments that the tool
        does not know are left out. `key` is the idempotency key. The functions are called one after the other, in the
        order of what happens; a slow one delays nothing (see `Feedback`). Text is asked for where it can be had.

        Raises:
            CallFailed: there is no result.
        """
        feedback = Feedback(on_progress, on_text)
        exchange = Exchange(feedback.put if on_progress or on_text else None, on_question)

        async def act(connection: Connection) -> CallToolResult:
            client = await connection.client()
            chosen, given = tool, dict(arguments)
            if chosen is None:
                chosen, given = await _chosen(connection, agent, arguments)
            meta: dict[str, Any] = {"progressToken": str(uuid.uuid4())}
            if key is not None:
                meta[KEY_META] = key
            if on_text is not None and has(client, TEXT_META):
                meta[TEXT_META] = True
            async with feedback.running():
                try:
                    result = await call_tool(connection, chosen, given, meta, exchange)
                except MCPError as error:
                    self._check_asked(target, str(error))
                    raise
            if result.is_error:
                self._check_asked(target, text_of(result))
            return result

        return answer_of(await self._on_connection(target, exchange, act))

    async def cancel(
        self, target: Target, tool: str | None, *, agent: str | None = None, key: str, answers: Mapping[str, Reply]
    ) -> CallAnswer | None:
        """Cancel the call that was made with this key, by whomever, at once. Returns the answer that a call gets then.

        `answers` are those that the agent's questions have had, by id: a call goes on with them. None: the agent waits
        for an answer, or its gateway knows no such cancel.

        Raises:
            CallFailed: it is not known whether the call is cancelled.
        """

        async def answered(question: Question) -> Reply:
            if question.id not in answers:
                raise _Unanswered
            return answers[question.id]

        exchange = Exchange(on_question=answered)

        async def act(connection: Connection) -> CallToolResult | None:
            if not has(await connection.client(), CANCEL_META):
                return None
            chosen = tool if tool is not None else (await _chosen(connection, agent, {}))[0]
            return await call_tool(connection, chosen, None, {KEY_META: key, CANCEL_META: True}, exchange)

        try:
            result = await self._on_connection(target, exchange, act)
        except _Unanswered:
            return None
        return answer_of(result) if result is not None else None

    async def health(self, target: Target) -> HealthReport:
        """Ask for the agent's health. Whatever else comes is an error; it takes at most 3 s."""
        task = asyncio.create_task(self._health(target))
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)
        try:
            done, _ = await asyncio.wait({task}, timeout=HEALTH_SECONDS)
            if done:
                return task.result()
            self._pool.drop(target)
            return HealthReport("error", f"did not answer within {HEALTH_SECONDS:g} s")
        finally:
            task.cancel()

    async def _health(self, target: Target) -> HealthReport:
        exchange = Exchange(largest=_LARGEST_HEALTH)

        async def act(connection: Connection) -> CallToolResult:
            return await call_tool(connection, GET_HEALTH, None, {}, exchange)

        try:
            return health_of(await self._on_connection(target, exchange, act))
        except CallFailed as error:
            return HealthReport("error", str(error))

    async def tools(self, target: Target) -> Sequence[Tool]:
        """The tools of an agent.

        Raises:
            CallFailed: they cannot be listed.
        """
        return await self._on_connection(target, Exchange(), Connection.tools)

    async def keeps_keys(self, target: Target) -> bool:
        """Whether the agent's gateway executes calls with the same idempotency key only once.

        Raises:
            CallFailed: it cannot be reached.
        """

        async def act(connection: Connection) -> bool:
            return has(await connection.client(), KEY_META)

        return await self._on_connection(target, Exchange(), act)

    def _check_asked(self, target: Target, error: str) -> None:
        """Check that the error is not that a tool cannot ask in the revision of the connection; the next one is older.

        The call is not repeated: what the tool did before it asked has been done.

        Raises:
            CallFailed: the tool cannot ask.
        """
        if cannot_ask(error):
            self._pool.use_handshake(target)
            message = "the agent can ask only in an older revision of MCP, which is used from now on: call it again"
            raise CallFailed(message, code="protocol")

    async def _on_connection[R](self, target: Target, exchange: Exchange, act: Act[R]) -> R:
        """Do something on the target's connection, and once more on a new one if the server does not know the old."""
        entered = current.set(exchange)
        try:
            return await self._try(target, exchange, act, again=True)
        except _Stale:
            return await self._try(target, exchange, act, again=False)
        finally:
            current.reset(entered)
            exchange.end()

    async def _try[R](self, target: Target, exchange: Exchange, act: Act[R], *, again: bool) -> R:
        exchange.fault, exchange.session_lost = None, False
        async with self._pool.lease(target) as connection:
            try:
                return await act(connection)
            except (MCPError, ValidationError, CallFailed, RuntimeError) as error:
                if exchange.fault is not None or not isinstance(error, MCPError):
                    self._pool.retire(target, connection)
                if again and isinstance(error, MCPError) and is_stale(error, exchange):
                    raise _Stale from error
                raise failure_of(error, exchange) from error


class _Unanswered(Exception):
    """The agent waits for an answer that nobody has given, so there is nothing to cancel."""


class _Stale(Exception):
    """The server does not know the connection any more."""


def has(client: Client, capability: str) -> bool:
    """Whether a server lists an experimental capability."""
    return capability in (client.server_capabilities.experimental or {})


async def _chosen(
    connection: Connection, agent: str | None, arguments: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    tool = choose(await connection.tools(), agent)
    if tool is None:
        raise CallFailed("the agent has no tool that could be called", code="no_tool", sent=False)
    return tool.name, fitting(tool, arguments)
