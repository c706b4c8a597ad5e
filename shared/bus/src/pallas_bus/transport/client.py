"""A client of nats-py that leaves no socket open, neither when it closes nor after a refused reconnect."""

import asyncio
from contextlib import suppress
from typing import override
from urllib.parse import ParseResult

from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import Error as NatsError

_CLOSE_SECONDS = 2.0


class _Transport(TcpTransport):
    """A transport that closes its connection before it opens another. nats-py's own would leave it open."""

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
    """A client whose `close` ends in bounded time and leaves no socket open."""

    @override
    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is None:
            self._transport = _Transport()
        await super()._connect_to_server(s)

    @override
    async def close(self) -> None:
        """Close the connection; wait `_CLOSE_SECONDS` at most for the broker.

        After an interrupted TLS handshake nats-py's `close` would wait for ever. During the clean-up of a refused
        connection it would return at once, with the socket open.
        """
        try:
            with suppress(NatsError, TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await super().close()
        finally:
            if isinstance(self._transport, _Transport):
                self._transport.abort()
