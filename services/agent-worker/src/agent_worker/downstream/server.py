"""One downstream MCP server and its one live client, shared by any number of turns at once.

The client is entered and left by a single task, as the SDK's cancel scopes demand; turns only borrow it. A turn that is
cancelled in the middle of a call cancels that call and nothing else.
"""

import asyncio
import logging
import re
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Protocol, cast

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Unavailable

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp_types import CallToolResult, Tool

    from pallas_teams.model import ServerConfig

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 5.0
"""Seconds a turn waits for a connection that is not there."""
FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
_COOL_DOWN = 1.0
"""Seconds after a failed attempt in which nobody waits for another one."""
_CLOSE_TIMEOUT = 8.0


# What happened to a request over HTTP is told by words only: by the SDK's own, or by those of the server's refusal.
_FORGOTTEN = re.compile(
    r"(?i)\bsession (?:id )?(?:was )?(?:terminated|not found|expired)|\b(?:no valid|unknown|invalid) session"
)
_NO_ANSWER = "Server returned an error response"


class OnProgress(Protocol):
    """Hears the progress of one call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take one report; `total` is None when it is not known."""
        ...


class DownstreamServer:
    """The pooled client of one server. `name` is what logs and errors call it; no address ever is in either."""

    def __init__(self, config: "ServerConfig", name: str) -> None:
        self.name = name
        self.config = config
        self.error: str | None = "not connected yet"
        self._client: Client | None = None
        self._tools: list[Tool] | None = None
        self._tools_stale = True
        self._listing = asyncio.Lock()
        self._owner: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._wanted = asyncio.Event()
        self._ended = asyncio.Event()
        self._was_up = False
        self._failed_at = -_COOL_DOWN
        self._closing = False

    def start(self) -> None:
        """Connect in the background and stay connected, without waiting for a first call."""
        if self._owner is None:
            self._owner = asyncio.create_task(self._own(), name=f"mcp-client {self.name}")

    async def close(self) -> None:
        """Say goodbye to the server and end its process, if it has one."""
        self._closing = True
        if self._owner is None:
            return
        self._ended.set()
        self._wanted.set()
        _, pending = await asyncio.wait({self._owner}, timeout=_CLOSE_TIMEOUT)
        for task in pending:
            task.cancel()
            await asyncio.wait({task})

    async def tools(self) -> "list[Tool]":
        """Return the server's tools; the last known ones while it is away.

        Raises:
            Unavailable: it cannot be reached and never could.
        """
        if self._tools is None or (self._tools_stale and self._client is not None):
            async with self._listing:
                if self._tools is None or self._tools_stale:
                    self._tools = await self._list_tools()
        return self._tools

    async def call(self, tool: str, arguments: JsonObject, on_progress: OnProgress) -> "CallToolResult":
        """Call a tool.

        Raises:
            Unavailable: the server cannot be reached, or went away during the call.
            Exception: whatever else the SDK has to say about the call; the connection is fine.
        """
        client = await self._connected()
        try:
            return await self._call(client, tool, arguments, on_progress)
        except _SessionGone:
            # The server refused the call because it does not know our session, so it has not been executed.
            self._lose(client)
            return await self._call(await self._connected(), tool, arguments, on_progress)

    async def _call(
        self, client: "Client", tool: str, arguments: JsonObject, on_progress: OnProgress
    ) -> "CallToolResult":
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        try:
            return await client.call_tool(tool, arguments, progress_callback=on_progress)
        except MCPError as error:
            modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
            if not modern and _FORGOTTEN.search(error.message):
                raise _SessionGone(f"{self.name!r} has forgotten the session") from error
            if error.code != CONNECTION_CLOSED and error.message != _NO_ANSWER:
                raise
            raise Unavailable(f"{self.name!r} did not answer the call", code="unreachable") from error

    async def _list_tools(self) -> "list[Tool]":
        client = await self._connected()
        self._tools_stale = False
        found: list[Tool] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                while True:
                    page = await client.list_tools(cursor=cursor)
                    found.extend(page.tools)
                    cursor = page.next_cursor
                    if cursor is None:
                        return found
        except Exception as error:  # the SDK raises many kinds here; all mean that there is no list
            self._tools_stale = True
            if self._tools is not None:
                return self._tools
            raise Unavailable(f"{self.name!r} does not list its tools", code="unreachable") from error

    async def _connected(self) -> "Client":
        """Return the live client, waiting for one attempt to connect when there is none."""
        if self._client is not None:
            return self._client
        if self._closing:
            raise Unavailable(f"{self.name!r} is being closed", code="unreachable")
        self.start()
        if time.monotonic() - self._failed_at > _COOL_DOWN:
            self._settled.clear()
            self._wanted.set()
            await self._settled.wait()
        if self._client is None:
            raise Unavailable(f"{self.name!r} cannot be reached: {self.error}", code="unreachable")
        return self._client

    async def _own(self) -> None:
        """Connect, hold the connection until it ends, and begin anew: at once when wanted, else after a pause."""
        delay = FIRST_DELAY
        while not self._closing:
            self._ended.clear()
            self._wanted.clear()
            self._was_up = False
            try:
                await self._hold()
            except Exception as error:  # noqa: BLE001 - every way to lose a connection ends in another attempt
                self._note(error)
            self._client = None
            if self._was_up:
                delay = FIRST_DELAY
            else:
                self._failed_at = time.monotonic()
                self._settled.set()
                delay = min(delay * 2, LONGEST_DELAY)
            await self._pause(delay)
        self._settled.set()

    async def _hold(self) -> None:
        from mcp.client import Client

        from agent_worker.downstream.transports import open_transport

        async with AsyncExitStack() as stack:
            transport = open_transport(self.config, self._ended.set)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                client = await stack.enter_async_context(Client(transport, cache=None, message_handler=self._hear))
            self._client, self.error, self._tools_stale, self._was_up = client, None, True, True
            self._settled.set()
            log.info("connected to downstream server", extra={"server": self.name})
            watch = asyncio.create_task(self._watch(client))
            try:
                await self._ended.wait()
            finally:
                watch.cancel()
                self.error = self.error or "connection lost"

    async def _watch(self, client: "Client") -> None:
        """Follow changes of the tool list where the revision has a stream for them, for as long as it is wanted."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp_types import METHOD_NOT_FOUND

        offered = client.server_capabilities.tools
        delay = FIRST_DELAY
        while offered and offered.list_changed:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._tools_stale = True
                    async for _ in changes:
                        self._tools_stale = True
            except ListenNotSupportedError:
                return
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return
            except (SubscriptionLost, TimeoutError):
                log.debug("stream of changes lost", extra={"server": self.name})
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY)

    async def _hear(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._tools_stale = True

    def _lose(self, client: "Client") -> None:
        """Have the connection made anew, unless that has happened already."""
        if self._client is client:
            self._client = None
            self.error = "connection lost"
            self._ended.set()

    def _note(self, error: Exception) -> None:
        self.error = _reason(error)
        log.warning("downstream server unreachable", extra={"server": self.name, "reason": self.error})

    async def _pause(self, delay: float) -> None:
        if self._closing:
            return
        try:
            async with asyncio.timeout(delay):
                await self._wanted.wait()
        except TimeoutError:
            pass


# By name, because the classes come with imports that cost a second.
_REASONS = {
    "ConnectError": "no connection",
    "ConnectTimeout": "no connection in time",
    "FileNotFoundError": "the command was not found",
    "PermissionError": "the command may not be run",
    "TimeoutError": "no answer in time",
    "MCPError": "it refused the handshake",
}


class _SessionGone(Unavailable):
    """The server answers, but not to our session any more."""


def _reason(error: BaseException) -> str:
    """Say what went wrong without addresses or credentials: the kind of the innermost first error."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return _REASONS.get(type(error).__name__, type(error).__name__)
