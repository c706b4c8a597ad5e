"""A conversation with one agent over MCP, as the interface contract wants it.

The history lives here, with the caller, and is sent along with every message: Pallas keeps none of it. A failed turn
is not added to it.
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
"""How long a connection may take, and how long an answer may be silent: the SDK's own limits."""


class CallFailed(Exception):
    """The agent could not be called at all; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `failed` means the turn ended with an error, which `text` then explains."""

    text: str
    failed: bool


@dataclass
class Conversation:
    """One conversation with the agent at `url`, which gets `token` as bearer; an asynchronous context manager."""

    url: str
    tool: str
    token: str | None = field(default=None, repr=False)
    history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _client: "Client | None" = None
    _connection: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            CallFailed: nothing answers at `url`, or it is no MCP endpoint.
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
                raise CallFailed(f"cannot reach {self.url}: {_reason(error)}") from error
            self._connection = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Disconnect."""
        await self._connection.__aexit__(kind, error, traceback)

    async def ask(self, message: str, on_progress: Callable[[str], None]) -> Answer:
        """Send `message` with the history so far; `on_progress` gets each status line as it arrives.

        Raises:
            CallFailed: the call itself failed, as opposed to the turn.
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

    A `gateway` address that names an endpoint already (such as an agent's own port) is taken as it is.
    """
    team, _, name = agent.rpartition("/")
    base = gateway.rstrip("/")
    if "/mcp" in urlsplit(base).path:
        return base, name
    return (f"{base}/teams/{team}/mcp/{name}" if team else f"{base}/mcp/{name}"), name


def _reason(error: Exception) -> str:
    """The innermost error as one line: transports wrap errors in groups."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", inner).exceptions[0]
    first = str(inner).strip().splitlines()
    return first[0] if first else type(inner).__name__
