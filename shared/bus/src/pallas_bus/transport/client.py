"""The client of nats-py, which leaves no socket open: not at its end, and not behind a try that was refused."""

import asyncio
from contextlib import suppress
from typing import override
from urllib.parse import ParseResult

from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import Error as NatsError

_CLOSE_SECONDS = 2.0


class _Transport(TcpTransport):
    """A transport that drops its connection before it makes another, which nats-py only puts in its place."""

    @override
    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        self.abort()
        await super().connect(uri, buffer_size, connect_timeout)

    def abort(self) -> None:
        """Close the socket at once. A TLS connection that is only closed waits for the other side first."""
        if self._io_writer is not None:
            self._io_writer.transport.abort()

    @override
    def __bool__(self) -> bool:
        return True  # else nats-py takes one of its own


class ClosingClient(Client):
    """A client whose `close` comes to an end and leaves no socket open."""

    @override
    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is None:
            self._transport = _Transport()
        await super()._connect_to_server(s)

    @override
    async def close(self) -> None:
        """Close the connection; whether the other side takes part is not waited for long.

        One whose TLS handshake was cut short never says that it has closed. One that is closed while nats-py closes a
        try that was refused takes itself for closed already, with its socket open.
        """
        try:
            with suppress(NatsError, TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await super().close()
        finally:
            if isinstance(self._transport, _Transport):
                self._transport.abort()
