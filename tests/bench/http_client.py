"""A small HTTP/1.1 client for load: one connection, one prepared request at a time, the answer read to its end.

It knows just what the measured servers answer (a length or chunks, keep-alive), so that it costs little of the CPU that
it shares with them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer. `sse` says whether the body is an event stream; `session` is the MCP session it gave."""

    status: int
    sse: bool
    body: bytes
    session: str | None = None


class HttpConnection(asyncio.Protocol):
    """One keep-alive connection. `on_body` is called with the size of every piece of a body as it arrives."""

    def __init__(self, on_body: Callable[[int], None] | None = None) -> None:
        self._on_body = on_body
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._reader = AnswerReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport. uvloop's is no subclass of `asyncio.Transport`, only alike."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read on; wake the asker when the answer is whole."""
        answer = self._reader.feed(data)
        if self._on_body is not None and self._reader.body_size:
            self._on_body(self._reader.body_size)
        if answer is not None and self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionError("the server closed the connection"))

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its whole answer.

        Raises:
            OSError: the connection broke.
        """
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        """Close at once, in the middle of an answer if there is one."""
        if self._transport is not None:
            self._transport.abort()


class AnswerReader:
    """Puts one answer after the other together from the bytes of a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body = bytearray()
        self._head: tuple[int, bool, str | None] | None = None
        self._left: int | None = None

    @property
    def body_size(self) -> int:
        """How many bytes of the current body are here."""
        return len(self._body)

    def feed(self, data: bytes) -> Answer | None:
        """Take bytes; return the answer when they complete it."""
        self._buffer += data
        if self._head is None and not self._read_head():
            return None
        if not (self._read_chunks() if self._left is None else self._read_length()):
            return None
        assert self._head is not None
        status, sse, session = self._head
        answer = Answer(status, sse, bytes(self._body), session)
        self._head, self._left = None, None
        self._body.clear()
        return answer

    def _read_head(self) -> bool:
        end = self._buffer.find(_END_OF_HEAD)
        if end < 0:
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + len(_END_OF_HEAD)]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        sse = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        session = headers.get(b"mcp-session-id")
        self._head = (int(first.split(b" ", 2)[1]), sse, session.decode() if session else None)
        self._left = None if headers.get(b"transfer-encoding") == b"chunked" else int(headers[b"content-length"])
        return True

    def _read_length(self) -> bool:
        assert self._left is not None
        self._body += self._buffer[: self._left - len(self._body)]
        self._buffer.clear()
        return len(self._body) >= self._left

    def _read_chunks(self) -> bool:
        while (line := self._buffer.find(b"\r\n")) >= 0:
            size = int(self._buffer[:line].partition(b";")[0], 16)
            end = line + 2 + size
            if len(self._buffer) < end + 2:
                return False
            self._body += self._buffer[line + 2 : end]
            del self._buffer[: end + 2]
            if size == 0:
                return True
        return False


async def connect(port: int, on_body: Callable[[int], None] | None = None) -> HttpConnection:
    """Connect to a port of this machine."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: HttpConnection(on_body), "127.0.0.1", port)
    return connection
