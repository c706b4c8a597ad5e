"""The HTTP listener of every service: a time limit for headers, and a maximum of connections."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import uvloop
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from tests.waiting import eventually, loop_lag, soon
from websockets.asyncio import client
from websockets.exceptions import InvalidStatus

from pallas_runtime.http.listener import bind, listening

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
type Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class App:
    """Answers `ok` once `may_answer` is set, and POST at once without reading the body."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        if scope["type"] == "websocket":
            await _echo(WebSocket(scope, receive, send))
            return
        if scope["method"] == "GET":
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def _echo(socket: WebSocket) -> None:
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text)


class Listener:
    """A listener with its application, and connections to it."""

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, *data: bytes) -> Connection:
        """Connect, and send data."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        for one in data:
            writer.write(one)
            await writer.drain()
        return reader, writer

    def socket(self) -> client.connect:
        """A WebSocket, not yet connected."""
        return client.connect(f"ws://127.0.0.1:{self._port}/", proxy=None, close_timeout=1)

    def close(self) -> None:
        """Close what the test has opened."""
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def a_listener(most: int = 100, *, websockets: bool = False) -> AsyncGenerator[Listener]:
    listener, app = bind("127.0.0.1", 0), App()
    async with listening(app, listener, drain_seconds=1, most_connections=most, websockets=websockets):
        made = Listener(app, listener.getsockname()[1])
        try:
            yield made
        finally:
            app.may_answer.set()
            made.close()


async def answered(connection: Connection) -> bool:
    head = await soon(connection[0].readuntil(b"\r\n\r\n"))
    return b"200 OK" in head and await soon(connection[0].readexactly(2)) == b"ok"


async def ended(connection: Connection) -> bool:
    try:
        return await soon(connection[0].read()) == b""
    except ConnectionResetError:  # it was closed with unread bytes
        return True


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time limit of 0.2 s for headers."""
    monkeypatch.setattr("pallas_runtime.http.connection.HEADER_SECONDS", 0.2)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("sent", [b"", b"GET", REQUEST[:-2]])
async def test_a_connection_whose_headers_do_not_arrive_in_time_is_closed(sent: bytes) -> None:
    async with a_listener() as listener:
        assert await ended(await listener.connect(sent) if sent else await listener.connect())
        assert listener.app.asked == 0


@pytest.mark.usefixtures("short")
async def test_headers_sent_byte_by_byte_have_the_same_time_limit() -> None:
    async with a_listener() as listener:
        reader, writer = connection = await listener.connect()
        endless = b"GET / HTTP/1.1\r\nX: " + b"x" * 10_000
        for byte in endless:
            if reader.at_eof() or writer.is_closing():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)
        assert listener.app.asked == 0
        assert await ended(connection)


@pytest.mark.usefixtures("short")
async def test_the_time_limit_for_headers_applies_neither_to_answers_nor_to_idle_connections() -> None:
    async with a_listener() as listener:
        first, late = await listener.connect(REQUEST), await listener.connect()
        assert await ended(late), "more than 0.2 s have passed"
        listener.app.may_answer.set()
        assert await answered(first)
        assert await ended(await listener.connect())
        first[1].write(REQUEST)
        assert await answered(first)
        first[1].write(REQUEST[:9])
        assert await ended(first), "the next request has the same time"


@pytest.mark.usefixtures("short")
async def test_a_body_that_goes_on_after_its_answer_is_cut_off() -> None:
    async with a_listener() as listener:
        connection = await listener.connect(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert await answered(connection)
        connection[1].write(b"x")
        assert await ended(connection)


async def test_at_the_connection_limit_the_oldest_connection_without_a_request_is_closed() -> None:
    async with a_listener(most=3) as listener:
        busy = await listener.connect(REQUEST)
        await eventually(lambda: listener.app.asked == 1)
        oldest, younger = await listener.connect(REQUEST[:5]), await listener.connect(REQUEST[:5])
        newcomer = await listener.connect(REQUEST)
        assert await ended(oldest)
        younger[1].write(REQUEST[5:])
        await eventually(lambda: listener.app.asked == 3)
        assert await ended(await listener.connect(REQUEST)), "all others have requests under way"
        listener.app.may_answer.set()
        for connection in (busy, younger, newcomer):
            assert await answered(connection)


@pytest.mark.usefixtures("short")
async def test_websockets_count_as_connections_and_are_never_idle() -> None:
    async with a_listener(most=3, websockets=True) as listener, listener.socket() as first, listener.socket() as second:
        idle = await listener.connect()
        newcomer = await listener.connect(REQUEST)
        assert await ended(idle), "it was the only one without a request"
        assert await ended(await listener.connect()), "all others are in use"
        for socket in (first, second):
            await socket.send("still there")
            assert await soon(socket.recv()) == "still there"
        listener.app.may_answer.set()
        assert await answered(newcomer)


HANDSHAKE = REQUEST[:-2] + (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    "more",
    [b"Content-Length: 1\r\n", b"Transfer-Encoding: chunked\r\n", b"a: b\r\n" * 150, b"a: " + b"b" * 10_000 + b"\r\n"],
    ids=["body", "chunked body", "many headers", "long header"],
)
async def test_a_handshake_of_a_websocket_that_cannot_be_read_ends_its_connection(more: bytes) -> None:
    async with a_listener(websockets=True) as listener:
        reader, _ = await listener.connect(HANDSHAKE + more + b"\r\n")
        assert b"101" not in await soon(reader.read())
        assert not listener.app.asked


PIECE, EMPTY_PIECE = b"\x00\x81\x00\x00\x00\x00x", b"\x00\x80\x00\x00\x00\x00"
FIRST, LAST, PING = b"\x01" + PIECE[1:], b"\x80" + PIECE[1:], b"\x89" + PIECE[1:]
"""Frames of a client."""


@pytest.mark.parametrize(
    ("frames", "echoed"),
    [
        (PING * 100_000 + FIRST + LAST, 1),
        ((FIRST + PIECE * 10_000 + LAST) * 10, 10),
        ((b"\x81" + PIECE[1:]) * 40_000, 40_000),
    ],
    ids=["pings", "fragments", "messages"],
)
def test_many_small_frames_of_a_websocket_are_read_in_between(frames: bytes, echoed: int) -> None:
    """Under uvloop, as in services, which reads megabytes at once."""

    async def send() -> None:
        async with a_listener(websockets=True) as listener:
            reader, writer = await listener.connect(HANDSHAKE + b"\r\n")
            assert b" 101 " in await soon(reader.readuntil(b"\r\n\r\n"))
            with loop_lag() as lags:
                writer.write(frames)
                for _ in range(echoed):
                    while not (head := await soon(reader.readexactly(2))).startswith(b"\x81"):
                        await reader.readexactly(head[1])
                    await reader.readexactly(head[1] if head[1] < 126 else int.from_bytes(await reader.readexactly(2)))
            assert max(lags) < 0.2

    uvloop.run(send())


async def test_a_message_of_a_websocket_has_a_limit_of_its_frames() -> None:
    async with a_listener(websockets=True) as listener:
        reader, writer = await listener.connect(HANDSHAKE + b"\r\n")
        assert b" 101 " in await soon(reader.readuntil(b"\r\n\r\n"))
        writer.write(FIRST + EMPTY_PIECE * 20_000)
        assert await ended((reader, writer))


async def test_websockets_are_refused_where_they_are_not_served() -> None:
    async with a_listener() as listener:
        listener.app.may_answer.set()
        with pytest.raises(InvalidStatus):
            await listener.socket()


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_accepted_as_its_listener_ends_is_closed(turns: int) -> None:
    """asyncio accepts a connection, and makes its transport a turn of the loop later."""
    async with listening(App(), listener := bind("127.0.0.1", 0), drain_seconds=1):
        await asyncio.sleep(0.01)  # it listens
        clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
    for client_ in clients:
        with client_, suppress(ConnectionResetError):
            client_.settimeout(5)
            assert await asyncio.to_thread(client_.recv, 1) == b""
