"""A downstream MCP server: its tools, which any number of turns can call at once.

A turn that is cancelled during a call cancels that call and nothing else.
"""

import asyncio
import re
import time
from contextvars import Context
from typing import TYPE_CHECKING, Protocol

from agent_worker.downstream.connection import CONNECT_TIMEOUT, COOL_DOWN, Connection
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Unavailable

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp_types import CallToolResult, Tool

    from pallas_teams.model import ServerConfig

# Only the text of an error says what happened to a request over HTTP: the SDK's text, or that of the server.
_SESSION_GONE = re.compile(
    r"(?i)\bsession (?:id )?(?:was )?(?:terminated|not found|expired)|\b(?:no valid|unknown|invalid) session"
)
_NO_ANSWER = "Server returned an error response"


class OnProgress(Protocol):
    """Receives the progress of one call."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take one report; `total` is None when it is not known."""
        ...


class DownstreamServer:
    """The pooled server. Logs and errors show its `name`, never its address."""

    def __init__(self, config: "ServerConfig", name: str) -> None:
        self.name = name
        self.config = config
        self._connection = Connection(config, name, self._forget_tools)
        self._tools: list[Tool] | None = None
        self._stale = True
        self._listing: asyncio.Task[list[Tool]] | None = None
        self._failure: str | None = None
        self._failed_at = -COOL_DOWN

    @property
    def error(self) -> str | None:
        """What is wrong with the connection; None while it is up."""
        return self._connection.error

    def start(self) -> None:
        """Connect in the background, without waiting for a first call."""
        self._connection.start()

    async def close(self) -> None:
        """End the connection, and the server's process if it has one."""
        if (listing := self._listing) is not None:
            listing.cancel()
            await asyncio.wait({listing})
        await self._connection.close()

    async def tools(self) -> "list[Tool]":
        """Return the server's tools; while it does not answer, the last known ones.

        Concurrent calls share one request. After a request that timed out, none is sent for `COOL_DOWN` seconds.

        Raises:
            Unavailable: it cannot be reached and never could.
        """
        if self._tools is None or (self._stale and self._connection.client is not None):
            failed_before = self._failure is not None
            listing = self._list_request()
            if listing is not None and (self._tools is None or not failed_before):
                await asyncio.wait({listing})
        if self._tools is None:
            raise Unavailable(self._failure or f"{self.name!r} is being closed", code="unreachable")
        return self._tools

    async def call(self, tool: str, arguments: JsonObject, on_progress: OnProgress) -> "CallToolResult":
        """Call a tool.

        Raises:
            Unavailable: the server cannot be reached, or went away during the call.
            Exception: any other error of the SDK for this call; the connection is fine.
        """
        client = await self._connection.get()
        try:
            return await self._call(client, tool, arguments, on_progress)
        except _SessionGone:
            # The server does not know our session: it has not executed the call.
            self._connection.lose(client)
            return await self._call(await self._connection.get(), tool, arguments, on_progress)

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
            if not modern and _SESSION_GONE.search(error.message):
                raise _SessionGone(f"{self.name!r} no longer knows the session") from error
            if error.code != CONNECTION_CLOSED and error.message != _NO_ANSWER:
                raise
            raise Unavailable(f"{self.name!r} did not answer the call", code="unreachable") from error

    def _list_request(self) -> "asyncio.Task[list[Tool]] | None":
        """The running request for the list, or a new one; None right after one that timed out."""
        if self._listing is None and time.monotonic() - self._failed_at > COOL_DOWN:
            # Other turns share it, so it must not have this turn's context.
            self._listing = asyncio.create_task(self._list_tools(), name=f"mcp-tools {self.name}", context=Context())
            self._listing.add_done_callback(self._listed)
        return self._listing

    def _listed(self, listing: "asyncio.Task[list[Tool]]") -> None:
        self._listing = None
        if listing.cancelled():
            return
        if (error := listing.exception()) is None:
            self._tools, self._failure = listing.result(), None
        else:
            self._stale, self._failure = True, str(error)

    async def _list_tools(self) -> "list[Tool]":
        client = await self._connection.get()
        self._stale = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await _all_tools(client)
        except Exception as error:  # the SDK raises many kinds here; all mean that there is no list
            if isinstance(error, TimeoutError):
                self._failed_at = time.monotonic()
            raise Unavailable(f"{self.name!r} does not list its tools", code="unreachable") from error

    def _forget_tools(self) -> None:
        """List the tools again: they may have changed, or the connection is new."""
        self._stale, self._failed_at = True, -COOL_DOWN


class _SessionGone(Unavailable):
    """The server no longer knows our session."""


async def _all_tools(client: "Client") -> "list[Tool]":
    found: list[Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return found
