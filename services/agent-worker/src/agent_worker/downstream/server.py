"""A downstream MCP server: its tools, which any number of turns can call at once.

A turn that is cancelled during a call cancels that call and nothing else.
"""

import asyncio
import logging
import re
import time
from contextvars import Context
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from agent_worker.downstream.connection import CONNECT_TIMEOUT, COOL_DOWN, Connection
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_teams.model import ServerConfig

if TYPE_CHECKING:
    from mcp import MCPError
    from mcp.client import Client
    from mcp_types import CallToolResult, Tool

    from pallas_mcp_calls.exchange import Exchange
    from pallas_teams.model import ServerConfig

log = logging.getLogger(__name__)

_SESSION_GONE = re.compile(
    r"(?i)\bsession (?:id )?(?:was )?(?:terminated|not found|expired)|\b(?:no valid|unknown|invalid) session"
)
_NO_SESSION, _PERHAPS_NO_SESSION = frozenset({404, 410}), frozenset({400, 401})
"""HTTP statuses with which servers refuse a request of a session that they have forgotten. By MCP it is 404."""
_ABOUT_THE_CALL = frozenset({-32601, -32602})
_NO_ANSWER = re.compile(r"Server returned an error response|Connection closed|SSE stream ")
"""What the SDK says when there is no answer. Its error code is used by servers, too."""
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 30.0
"""Seconds until the tools are listed again after a failure: they double with each."""
_MOST_NAMED = 3


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
        self._connection = Connection(config, name, self._connected, self._forget_tools, self._leave_out)
        self._tools: list[Tool] | None = None
        self._left_out: dict[str, str] = {}
        self._leaving_out: dict[str, str] = {}
        self._cut = 0
        self._stale = True
        self._listing: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._pause = _FIRST_PAUSE
        self._failure: str | None = None
        self._failed_at = -COOL_DOWN
        self._calling = 0
        self._lacking_since: datetime | None = None

    @property
    def error(self) -> str | None:
        """What is wrong with the connection; None while it is up."""
        return self._connection.error

    def lacking(self) -> str | None:
        """What turns lack of this server, and since when; None when all is well, or nothing has been tried yet."""
        why = self._why_lacking()
        self._lacking_since = (self._lacking_since or utc_now()) if why else None
        return f"{self.name} {why} (since {self._lacking_since:%H:%M:%S} UTC)" if self._lacking_since else None

    def _why_lacking(self) -> str | None:
        if self._connection.error is not None:
            told = self.config.transport == "stdio" or not self._connection.tried  # the presence has stdio servers
            return None if told else f"is not connected: {self._connection.error}"
        if self._failure is not None:
            return "does not list its tools"
        if self._left_out:
            named = [f"{name} ({why})" for name, why in islice(self._left_out.items(), _MOST_NAMED)]
            more = len(self._left_out) - len(named)
            return f"has tools that cannot be used: {', '.join(named)}{f', and {more} more' if more else ''}"
        if self._cut:
            return f"lists too many tools; those behind the first {self._cut} are left out"
        return "lists no tools" if self._tools == [] else None

    def start(self) -> None:
        """Connect in the background, without waiting for a first call."""
        self._connection.start()

    async def close(self) -> None:
        """End the connection, and the server's process if it has one."""
        self._stop_waiting()
        if (listing := self._listing) is not None:
            listing.cancel()
            await asyncio.wait({listing})
        await self._connection.close()
        self._stop_waiting()

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
        """Call a tool. If the server has refused that for want of the session, it is called in a new one.

        Raises:
            Unavailable: the server cannot be reached, or went away during the call.
            Exception: any other error of the SDK for this call; the connection is fine.
        """
        from mcp import MCPError

        from pallas_mcp_calls.exchange import Exchange
        from pallas_mcp_calls.sessions import call_once

        again = True
        while True:
            client, exchange = await self._connection.get(), Exchange()
            self._calling += 1
            try:
                return await call_once(client.session, tool, arguments, exchange, on_progress)
            except MCPError as error:
                if self._renew(client, error, exchange) and again:
                    again = False
                    continue
                if exchange.fault is not None and not exchange.fault.lost:
                    raise exchange.fault from error  # it has answered, and the answer cannot be taken
                if exchange.fault is None and not _NO_ANSWER.match(error.message):
                    raise
                raise Unavailable(f"{self.name!r} did not answer the call", code="unreachable") from error
            finally:
                self._calling -= 1

    def _renew(self, client: "Client", error: "MCPError", exchange: "Exchange") -> bool:
        """Whether the server has refused the request because it has forgotten the session, so that there is a new one.

        After any other HTTP error the next call gets a new one, too. A session that may still be known is
        kept while other calls are under way in it.
        """
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version in MODERN_PROTOCOL_VERSIONS or error.code in _ABOUT_THE_CALL:
            return False
        status, said = exchange.status or 0, _SESSION_GONE.search(error.message) is not None
        alone = self._calling <= 1
        gone = exchange.refused and (said or status in _NO_SESSION or (status in _PERHAPS_NO_SESSION and alone))
        if gone or ((said or status >= 500) and alone):
            self._connection.lose(client)
        return gone

    def _list_request(self) -> "asyncio.Task[None] | None":
        """The running request for the list, or a new one; None right after one that timed out."""
        if self._listing is None and time.monotonic() - self._failed_at > COOL_DOWN:
            self._stop_waiting()
            # Other turns share it, so it must not have this turn's context.
            self._listing = asyncio.create_task(self._list_tools(), name=f"mcp-tools {self.name}", context=Context())
        return self._listing

    async def _list_tools(self) -> None:
        try:
            self._tools = await self._listed()
            self._failure, self._pause = None, _FIRST_PAUSE
        except Unavailable as error:
            self._stale, self._failure = True, error.message
            if self._connection.client is not None:  # else they are listed when it is connected again
                self._again = asyncio.get_running_loop().call_later(self._pause, self._list_request)
                self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        finally:
            self._listing = None

    async def _listed(self) -> "list[Tool]":
        from mcp import MCPError

        from pallas_mcp_calls.exchange import Exchange, current
        from pallas_mcp_calls.sessions import MOST_TOOLS, list_tools

        again = True
        while True:
            client, exchange = await self._connection.get(), Exchange()
            current.set(exchange)
            self._stale, self._leaving_out = False, {}
            self._calling += 1
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    listed = await list_tools(client.session)
                self._cut = len(listed) if len(listed) >= MOST_TOOLS else 0
                self._left_out = self._leaving_out
                return list({tool.name: tool for tool in listed}.values())
            except Exception as error:  # the SDK raises many kinds here; all mean that there is no list
                if isinstance(error, MCPError) and self._renew(client, error, exchange) and again:
                    again = False
                    continue
                if isinstance(error, TimeoutError):
                    self._failed_at = time.monotonic()
                raise Unavailable(f"{self.name!r} does not list its tools", code="unreachable") from error
            finally:
                self._calling -= 1

    def _leave_out(self, tool: str, why: str) -> None:
        if tool not in self._left_out:
            log.warning("tool left out", extra={"server": self.name, "tool": tool, "reason": why})
        self._leaving_out[tool] = why

    def _connected(self) -> None:
        """List the tools, so that what is wrong with them is known before a turn needs them."""
        self._forget_tools()
        self._list_request()

    def _forget_tools(self) -> None:
        """List the tools again: they may have changed, or the connection is new."""
        self._stale, self._failed_at = True, -COOL_DOWN

    def _stop_waiting(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None


class DownstreamPool:
    """Returns pooled servers. They connect on first use, stdio servers at once."""

    def __init__(self) -> None:
        self._servers: dict[str, DownstreamServer] = {}

    def server(self, name: str, config: ServerConfig) -> DownstreamServer:
        """Return the server of `config`. `name` is its name in logs."""
        key = config.key()
        found = self._servers.get(key)
        if found is None:
            found = self._servers[key] = DownstreamServer(config, name)
        if config.transport == "stdio":
            # The worker reports the health of stdio servers, so it connects before the first call.
            found.start()
        return found

    def stdio_health(self) -> dict[str, str | None]:
        """What is wrong with each stdio server, by its key; None when it is connected."""
        return {key: server.error for key, server in self._servers.items() if server.config.transport == "stdio"}

    async def close(self) -> None:
        """Close all connections and end all child processes."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))
        self._servers.clear()
