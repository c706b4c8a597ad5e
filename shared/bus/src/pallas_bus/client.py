"""A client of nats-py that writes what is sent in one pass of the event loop at once, and leaves no socket open.

nats-py wakes a task for each write, and handles each header by itself. That was a fifth of a worker's time in a turn.
"""

import asyncio
from contextlib import suppress
from typing import Any, override
from urllib.parse import ParseResult

from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from pallas_bus.headers import decoded, encoded

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
    async def wait_closed(self) -> None:
        """Wait for the end of the connection.

        Several tasks may wait. Without the shield, one that is cancelled would cancel what the others wait for, and
        each of them would get a cancellation that nobody asked for.
        """
        await asyncio.shield(super().wait_closed())

    @property
    def is_behind(self) -> bool:
        """Whether the socket has not taken all that was written."""
        return self._io_writer is not None and self._io_writer.transport.get_write_buffer_size() > 0

    @override
    def __bool__(self) -> bool:
        return True  # else nats-py takes one of its own


class BusClient(Client):
    """A client whose `close` ends in bounded time. What cannot be written now stays pending, as in nats-py."""

    _writing: asyncio.Handle | None = None
    _pongs: list[asyncio.Future[bool]]

    @override
    async def _send_publish(
        self, subject: str, reply: str, payload: bytes, payload_size: int, headers: dict[str, Any] | None
    ) -> None:
        if headers is None:
            parts = (f"PUB {subject} {reply} {payload_size}\r\n".encode(), payload, b"\r\n")
        else:
            block = encoded(headers)
            whole = len(block) + payload_size
            if whole > self._max_payload:  # the broker would close the connection
                raise MaxPayloadError
            parts = (f"HPUB {subject} {reply} {len(block)} {whole}\r\n".encode(), block, payload, b"\r\n")
        await self._send_command(b"".join(parts))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_soon(self._write)

    @override
    async def _flush_pending(self, force_flush: bool = False) -> None:
        if force_flush:
            await super()._flush_pending(force_flush=True)
        elif self._writing is None:
            self._writing = asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        """Write what is pending. While the socket takes no more, nats-py's flusher waits for it."""
        self._writing = None
        if not self.is_connected or not self._pending:
            return
        assert isinstance(self._transport, _Transport)
        assert self._flush_queue is not None
        if self._transport.is_behind:
            if self._flush_queue.empty():
                self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())
            return
        with suppress(RuntimeError):  # the connection has just closed; what is pending is written to the next one
            self._transport.write(b"".join(self._pending))
            self._pending, self._pending_data_size = [], 0

    @override
    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        self._write()  # else the ping, which nats-py writes by itself, would come first
        await super().flush(timeout)

    @override
    async def _process_pong(self) -> None:
        """Take a pong. That of a flush which was cancelled would end nats-py's reading, and so the connection."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    _parse_header_lines = staticmethod(decoded)

    @override
    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is None:
            self._transport = _Transport()
        await super()._connect_to_server(s)

    @override
    async def close(self) -> None:
        """Close the connection; wait `_CLOSE_SECONDS` at most for the broker.

        After an interrupted TLS handshake nats-py's `close` would wait for ever. During the clean-up of a refused
        connection it would return at once, with the socket open. What is still pending without a connection is dropped:
        nats-py would write it to the closed one, and fail in the middle of its clean-up.
        """
        if not self.is_connected:
            self._pending, self._pending_data_size = [], 0
        try:
            with suppress(NatsError, TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await super().close()
        finally:
            if isinstance(self._transport, _Transport):
                self._transport.abort()
