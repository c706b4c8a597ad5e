"""The connections over which events are heard. Many small ones are kept until there are some, and read together.

A coding agent that draws a spinner sends ten events a second. With httpx2's own transport, each of them wakes a task
and passes through seven layers; here it is appended to what has come, and nothing that has come is lost when the
connection breaks.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Iterable
from typing import Any, override

import httptools
import httpx2

_MOST = 1024 * 1024
"""Bytes that are kept; the other side waits until they are read."""

type SocketOption = tuple[int, int, int]


class _Reply(asyncio.Protocol):
    """The answer of the only request of a connection: `head` is its status.

    Its body is read in parts: one that comes within `gather` seconds after another waits until these are over. What is
    left at the end waits for nothing.
    """

    transport: asyncio.Transport

    def __init__(self, gather: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.head: asyncio.Future[int] = self._loop.create_future()
        self.headers: list[tuple[bytes, bytes]] = []
        self._gather = gather
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._readable = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._read_at = 0.0
        self._ended = False
        self._error: httpx2.TransportError | None = None

    @override
    def connection_made(self, transport: Any) -> None:  # uvloop's is no `asyncio.Transport`
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._end(httpx2.RemoteProtocolError("the answer is not HTTP"))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        error = httpx2.RemoteProtocolError("the answer is not complete") if exc is None else httpx2.ReadError("lost")
        error.__cause__ = exc
        self._end(error)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has come."""
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """All headers have come."""
        if self._parser.get_status_code() < 200:  # the answer is still to come
            self.headers.clear()
        elif not self.head.done():
            self.head.set_result(self._parser.get_status_code())

    def on_body(self, data: bytes) -> None:
        """A part of the body has come."""
        self._body += data
        if self._timer is None:
            self._timer = self._loop.call_at(self._read_at + self._gather, self._readable.set)
        if len(self._body) > _MOST:
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        """The body has come."""
        if self.head.done():
            self._end(None)

    async def more(self, silent: float | None) -> bytes:
        """What has come since the last time; waits for it at most `silent` seconds. Nothing: the body has ended.

        Raises:
            TransportError: nothing came, or the connection broke, and all that came before was read.
        """
        try:
            async with asyncio.timeout(silent):
                await self._readable.wait()
        except TimeoutError as error:
            raise httpx2.ReadTimeout("nothing was heard") from error
        came = bytes(self._body)
        self._body.clear()
        self._timer, self._read_at = None, self._loop.time()
        if not self._ended:
            self._readable.clear()
            self.transport.resume_reading()
        elif not came and self._error is not None:
            raise self._error
        return came

    def _end(self, error: httpx2.TransportError | None) -> None:
        if self._ended:
            return
        self._ended, self._error = True, error
        self._readable.set()
        if not self.head.done():
            self.head.set_exception(error or httpx2.RemoteProtocolError("there is no answer"))
        self.transport.abort()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, reply: _Reply, silent: float | None) -> None:
        self._reply, self._silent = reply, silent

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        while came := await self._reply.more(self._silent):
            yield came

    @override
    async def aclose(self) -> None:
        self._reply.transport.abort()


class Hearing(httpx2.AsyncBaseTransport):
    """Makes a connection for each request. A request's extension `gather` is that of its body, in seconds."""

    def __init__(self, verify: ssl.SSLContext, socket_options: Iterable[SocketOption]) -> None:
        self._verify = verify
        self._options = tuple(socket_options)

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        timeout = request.extensions.get("timeout", {})
        reply = _Reply(request.extensions.get("gather", 0.0))
        await self._connect(reply, request.url, timeout.get("connect"))
        try:
            lines = [b"GET " + request.url.raw_path + b" HTTP/1.1", *(b": ".join(it) for it in request.headers.raw)]
            reply.transport.write(b"\r\n".join([*lines, b"", b""]))
            status = await reply.head
        except BaseException:
            reply.transport.abort()
            raise
        return httpx2.Response(status, headers=reply.headers, stream=_Body(reply, timeout.get("read")))

    async def _connect(self, reply: _Reply, url: httpx2.URL, seconds: float | None) -> None:
        if url.scheme not in ("http", "https"):
            raise httpx2.UnsupportedProtocol("only http and https")
        tls = self._verify if url.scheme == "https" else None
        port = url.port or (80 if tls is None else 443)
        host = url.raw_host.decode("ascii")
        try:
            async with asyncio.timeout(seconds):
                await asyncio.get_running_loop().create_connection(lambda: reply, host, port, ssl=tls)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("no connection in time") from error
        except OSError as error:
            raise httpx2.ConnectError("no connection") from error
        for option in self._options:
            reply.transport.get_extra_info("socket").setsockopt(*option)
