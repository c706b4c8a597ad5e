"""Connections by target: opened when needed, shared, closed when idle, and replaced when broken."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2

from pallas_mcp_calls.connection import CLOSE_SECONDS, Connection
from pallas_mcp_calls.model import Target

_MOST_OLD = 1_000
"""Addresses of which it is remembered that they are asked in a revision with a handshake."""


class Pool:
    """The connections. An idle one is closed after `idle` seconds."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, idle: float) -> None:
        self._transport = transport
        self._idle = idle
        self._connections = dict[Target, Connection]()
        self._old = dict[str, None]()
        self._timers = dict[Connection, asyncio.TimerHandle]()
        self._closing = set[asyncio.Task[None]]()

    def __len__(self) -> int:
        return len(self._connections)

    @asynccontextmanager
    async def lease(self, target: Target) -> AsyncGenerator[Connection]:
        """Use the connection to a target. It may still be opening."""
        connection = self._connections.get(target)
        if connection is None or not connection.usable:
            if connection is not None:
                self.retire(target, connection)
            old = target.url in self._old
            connection = self._connections[target] = Connection(target, self._transport, old=old)
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()
        connection.leases += 1
        try:
            yield connection
        finally:
            connection.leases -= 1
            if connection.leases == 0:
                self._rest(target, connection)

    def use_handshake(self, target: Target) -> None:
        """Connect to a target in a revision with a handshake from now on."""
        self._old[target.url] = None
        if len(self._old) > _MOST_OLD:
            del self._old[next(iter(self._old))]
        self.drop(target)

    def retire(self, target: Target, connection: Connection) -> None:
        """Give the connection to nobody any more. It is closed as soon as nobody uses it."""
        connection.retired = True
        if self._connections.get(target) is connection:
            del self._connections[target]
        if connection.leases == 0:
            self._close(connection)

    def drop(self, target: Target) -> None:
        """Retire the connection to a target, if there is one."""
        if (connection := self._connections.get(target)) is not None:
            self.retire(target, connection)

    def _rest(self, target: Target, connection: Connection) -> None:
        if connection.usable and self._connections.get(target) is connection:
            loop = asyncio.get_running_loop()
            self._timers[connection] = loop.call_later(self._idle, self.retire, target, connection)
        else:
            self.retire(target, connection)

    def _close(self, connection: Connection) -> None:
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()
        connection.close()
        task = asyncio.create_task(connection.closed())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections."""
        for target, connection in list(self._connections.items()):
            connection.leases = 0
            self.retire(target, connection)
        if self._closing:
            _, late = await asyncio.wait(set(self._closing), timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
