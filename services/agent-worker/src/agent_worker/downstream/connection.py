"""Keeps one MCP client connected, and reconnects with growing delays after failures.

A single task enters and exits the client, as the SDK's cancel scopes require; all others only use it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from contextvars import Context
from typing import TYPE_CHECKING, cast

from pallas_contracts.errors import Unavailable

if TYPE_CHECKING:
    from mcp.client import Client

    from agent_worker.downstream.incoming import LeftOut
    from pallas_teams.model import ServerConfig

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 5.0
"""Seconds a server may take to answer the handshake."""
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 10.0
COOL_DOWN = 1.0
"""Seconds after a failed attempt in which calls fail at once instead of waiting for another attempt."""
_STEADY = 10.0
"""Seconds after which a connection counts as stable: when it is lost, delays start from the shortest again."""
_CLOSE_TIMEOUT = 8.0

# By name, because the classes come with imports that cost a second.
_REASONS = {
    "ConnectError": "no connection",
    "ConnectTimeout": "no connection in time",
    "FileNotFoundError": "the command was not found",
    "PermissionError": "the command may not be run",
    "TimeoutError": "no answer in time",
    "MCPError": "it refused the handshake",
}


class Connection:
    """The connection to one server. `error` is what is wrong with it, and `tried` whether an attempt has ended.

    `on_connect` is called when there is a new one, `on_change` whenever the server's list of tools may have changed,
    and `left_out` for each tool in it that cannot be used.
    """

    def __init__(
        self,
        config: "ServerConfig",
        name: str,
        on_connect: Callable[[], None],
        on_change: Callable[[], None],
        left_out: "LeftOut",
    ) -> None:
        self.error: str | None = "not connected yet"
        self.client: Client | None = None
        self.tried = False
        self._told: str | None = None
        self._config = config
        self._name = name
        self._on_connect = on_connect
        self._on_change = on_change
        self._left_out = left_out
        self._owner: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._wanted = asyncio.Event()
        self._ended = asyncio.Event()
        self._up_since: float | None = None
        self._failed_at = -COOL_DOWN
        self._closing = False

    def start(self) -> None:
        """Connect in the background and stay connected, without waiting for a first call."""
        if self._owner is None:
            # It outlives the first turn that uses it, so it must not have that turn's context.
            self._owner = asyncio.create_task(self._own(), name=f"mcp-client {self._name}", context=Context())

    async def get(self) -> "Client":
        """Return the live client, waiting for one attempt to connect when there is none.

        Raises:
            Unavailable: the server cannot be reached now.
        """
        if self.client is not None:
            return self.client
        if self._closing:
            raise Unavailable(f"{self._name!r} is being closed", code="unreachable")
        self.start()
        if time.monotonic() - self._failed_at > COOL_DOWN:
            self._settled.clear()
            self._wanted.set()
            await self._settled.wait()
        if self.client is None:
            raise Unavailable(f"{self._name!r} cannot be reached: {self.error}", code="unreachable")
        return self.client

    def lose(self, client: "Client") -> None:
        """Reconnect, unless `client` has been replaced already."""
        if self.client is client:
            self._end()

    def _end(self) -> None:
        self.client = None
        self.error = "connection lost"
        self._ended.set()

    async def close(self) -> None:
        """Disconnect from the server and end its process, if it has one."""
        self._closing = True
        if self._owner is None:
            return
        self._ended.set()
        self._wanted.set()
        _, pending = await asyncio.wait({self._owner}, timeout=_CLOSE_TIMEOUT)
        for task in pending:
            task.cancel()
            await asyncio.wait({task})

    async def _own(self) -> None:
        """Connect, hold the connection until it ends, and reconnect: at once when a call waits, else after a delay."""
        delay = _FIRST_DELAY
        try:
            while not self._closing:
                self._ended.clear()
                self._wanted.clear()
                self._up_since = None
                try:
                    await self._hold()
                except Exception as error:  # noqa: BLE001 - every way to lose a connection ends in another attempt
                    self._failed(_reason(error))
                self.client = None
                self.tried = True
                if self._up_since is None:
                    self._failed_at = time.monotonic()
                    self._settled.set()
                delay = next_delay(delay, self._up_since)
                await self._pause(delay)
        finally:
            self._settled.set()

    def _failed(self, reason: str) -> None:
        level = logging.DEBUG if reason == self._told else logging.WARNING
        log.log(level, "downstream server unreachable", extra={"server": self._name, "reason": reason})
        self.error = self._told = reason

    async def _hold(self) -> None:
        from mcp.client import Client

        from agent_worker.downstream.transports import open_transport

        async with AsyncExitStack() as stack:
            transport = open_transport(self._config, self._end, self._left_out)
            async with asyncio.timeout(CONNECT_TIMEOUT):
                client = await stack.enter_async_context(
                    Client(transport, cache=None, message_handler=self._on_message)
                )
            self.client, self.error, self._up_since = client, None, time.monotonic()
            self._told = None
            self._on_connect()
            self._settled.set()
            log.info("connected to downstream server", extra={"server": self._name})
            watch = asyncio.create_task(self._watch(client))
            try:
                await self._ended.wait()
            finally:
                watch.cancel()
                self._end()

    async def _watch(self, client: "Client") -> None:
        """Subscribe to changes of the tool list, where the protocol revision has a stream for them."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp_types import METHOD_NOT_FOUND

        offered = client.server_capabilities.tools
        delay = _FIRST_DELAY
        while offered and offered.list_changed:
            since = time.monotonic()
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    # A change before the subscription was missed.
                    self._on_change()
                    async for _ in changes:
                        self._on_change()
            except ListenNotSupportedError:
                return
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return
            except (SubscriptionLost, TimeoutError):
                log.debug("subscription to tool list changes lost", extra={"server": self._name})
            delay = next_delay(delay, since)
            await asyncio.sleep(delay)

    async def _on_message(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._on_change()

    async def _pause(self, delay: float) -> None:
        if self._closing:
            return
        try:
            async with asyncio.timeout(delay):
                await self._wanted.wait()
        except TimeoutError:
            pass


def next_delay(delay: float, since: float | None) -> float:
    """The pause after an attempt that followed one of `delay`: the shortest again if it held from `since` on."""
    steady = since is not None and time.monotonic() - since > _STEADY
    return _FIRST_DELAY if steady else min(delay * 2, _LONGEST_DELAY)


def _reason(error: BaseException) -> str:
    """What went wrong, without addresses or credentials: the type of the innermost first error."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return _REASONS.get(type(error).__name__, type(error).__name__)
