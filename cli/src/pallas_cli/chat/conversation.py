"""A conversation with one agent over MCP.

The caller keeps the history and sends it with every message; Pallas stores none. A failed turn is not added to it.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mcp import Client

_CONNECT_SECONDS, _SILENT_SECONDS = 30.0, 300.0
"""Timeouts for connecting and between two parts of an answer: the SDK's defaults."""


class CallFailed(Exception):
    """The agent could not be called. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a turn. If `failed`, the turn ended with an error that `text` explains."""

    text: str
    failed: bool


@dataclass
class Conversation:
    """One conversation with the agent at `url`; `token` is the bearer token. An asynchronous context manager."""

    url: str
    tool: str
    token: str | None = field(default=None, repr=False)
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _client: "Client | None" = None
    _connection: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            CallFailed: `url` does not answer, or is no MCP endpoint.
        """
        from httpx2 import AsyncClient, Timeout
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with AsyncExitStack() as opening:
            try:
                timeout = Timeout(_CONNECT_SECONDS, read=_SILENT_SECONDS)
                http = await opening.enter_async_context(AsyncClient(headers=headers, timeout=timeout))
                client = Client(streamable_http_client(self.url, http_client=http))
                self._client = await opening.enter_async_context(client)
            except Exception as error:
                raise CallFailed(_not_connected(self.url, error)) from error
            self._connection = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Disconnect."""
        await self._connection.__aexit__(kind, error, traceback)

    async def ask(self, message: str, on_progress: Callable[[str], None]) -> Answer:
        """Send `message` with the history. `on_progress` receives each status line as it arrives.

        Raises:
            CallFailed: the call failed; a failed turn is an `Answer`.
        """
        assert self._client is not None, "a conversation is used inside `async with`"

        async def show(progress: float, total: float | None, message: str | None) -> None:
            if message:
                on_progress(message)

        arguments: dict[str, Any] = (
            {"message": message, "history": self.history} if self.history else {"message": message}
        )
        try:
            result = await self._client.call_tool(self.tool, arguments, progress_callback=show)
        except Exception as error:
            raise CallFailed(f"the call failed: {_reason(error)}") from error
        answer = Answer("\n".join(block.text for block in result.content if block.type == "text"), result.is_error)
        if not answer.failed:
            turns = ({"role": "user", "content": message}, {"role": "assistant", "content": answer.text})
            self.history.extend(turns)
        return answer


def agent_endpoint(gateway: str, agent: str) -> tuple[str, str]:
    """Return the MCP endpoint and the tool of `agent`, which is `NAME` or `TEAM/NAME`.

    A `gateway` address that is already an endpoint (such as an agent's dedicated port) is used unchanged.
    """
    team, _, name = agent.rpartition("/")
    base = gateway.rstrip("/")
    if "/mcp" in urlsplit(base).path:
        return base, name
    return (f"{base}/teams/{team}/mcp/{name}" if team else f"{base}/mcp/{name}"), name


def _not_connected(url: str, error: Exception) -> str:
    """Why there is no connection: the sentence with which the server refuses it, or what happened instead."""
    from mcp import MCPError

    reason = _reason(error)
    if isinstance(_innermost(error), MCPError) and reason.endswith("."):
        return reason[0].lower() + reason[1:-1]
    return f"cannot reach {url}: {reason}"


def _innermost(error: Exception) -> BaseException:
    """The innermost error, because transports wrap errors in groups."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    return inner


def _reason(error: Exception) -> str:
    """The innermost error as one line."""
    inner = _innermost(error)
    first = str(inner).strip().splitlines()
    return first[0] if first else type(inner).__name__
