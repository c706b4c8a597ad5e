"""An HTTP listener that can be started and drained at any time, without taking over the process's signals.

uvicorn accepts any number of connections. Here they have a limit, and so has what each of them sends (`connection`). A
WebSocket counts as a connection, which is never idle; its application decides when to close it.
"""

import asyncio
import resource
import socket
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from pallas_contracts.errors import Rejected
from pallas_runtime.http.connection import Connection
from pallas_runtime.http.door import Door

MOST_CONNECTIONS = 20_000
SPARE_FILES = 100
"""Open files that are reserved for everything but callers' connections."""
LARGEST_WEBSOCKET_MESSAGE = 16 * 1024 * 1024
PING_SECONDS = 10.0
"""Seconds between two pings of a WebSocket. Its peer is lost when a ping is not answered for as long."""
_PIECE, _READ_SECONDS = 1024, 0.005
"""Bytes of a WebSocket that are read at once, and seconds for which they are before others go on."""
_MOST_FRAGMENTS = 16_384
"""Frames of a message of a WebSocket. They may be empty."""
_CLOSE_SECONDS = 5.0
"""Seconds in which a WebSocket is closed; then it is cut off."""


class _WebSocket(WebSocketsSansIOProtocol):
    """A WebSocket. uvicorn would wait for ever for a peer that does not read what is sent to it, and for the end of a
    handshake that cannot be read: one with a body, or with more or longer headers than are allowed here.

    It would also read all that has arrived at once, which are 40,000 frames and takes seconds. Here it is read in
    pieces, and others go on in between. Nothing more is received while there are pieces left.
    """

    _later: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._left = bytearray()

    def data_received(self, data: bytes) -> None:
        self._left += data
        if self._later is None:
            self._read()

    def _read(self) -> None:
        self._later, until = None, time.monotonic() + _READ_SECONDS
        while self._left and not self.read_paused and time.monotonic() < until and not self.transport.is_closing():
            piece = bytes(self._left[:_PIECE])
            del self._left[:_PIECE]
            super().data_received(piece)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
        self._go_on()

    def _go_on(self) -> None:
        """Read the pieces that are left, or receive more; unless a message waits for the application."""
        if self.read_paused or self._later is not None or self.transport.is_closing():
            return
        if self._left:
            self.transport.pause_reading()
            self._later = self.loop.call_soon(self._read)
        else:
            self.transport.resume_reading()

    async def receive(self) -> ASGIReceiveEvent:
        event = await super().receive()
        self._go_on()
        return event

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < _MOST_FRAGMENTS:
            super().handle_cont(event)
        else:
            self.transport.abort()

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:  # it does not read, and need not be answered
            self.conn.data_to_send()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # uvicorn would log a refused handshake as an error of the application

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()


def _door(most: int) -> Door:
    """The limits of a listener. Each connection is an open file."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Door(most if files == resource.RLIM_INFINITY else min(most, max(1, files - SPARE_FILES)))


class _Server(uvicorn.Server):
    """Ends at once when it has nothing to finish. uvicorn looks ten times a second whether it shall end, and has."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door
        self.ending = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def main_loop(self) -> None:
        while not self.ending.is_set():
            await self.on_tick(0)  # this renews the Date header
            self._door.sweep(asyncio.get_running_loop().time())
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ending.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            await stop_accepting(server)
        for listening in (*self.servers, *(sockets or [])):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await asyncio.gather(*(server.wait_closed() for server in self.servers))
                while self.server_state.tasks:
                    await asyncio.wait(self.server_state.tasks)
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()


async def stop_accepting(server: asyncio.Server) -> None:
    """Accept no more connections, and let those that were just accepted reach their protocols.

    asyncio makes the transport of a connection, and then its protocol, in two steps after it has accepted it. If the
    server is closed before, the connection stays open and nobody has it. (uvloop does all at once.)
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening)
    for _ in range(2):
        await asyncio.sleep(0)


def bind(host: str, port: int) -> socket.socket:
    """Bind a listening socket; port 0 picks a free one.

    Raises:
        Rejected: the address is in use or not available, or the process has no descriptor left (`port_in_use`).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol argument asyncio leaves Nagle's algorithm on, which delays small answers by 40 ms.
    listener: socket.socket | None = None
    try:
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise Rejected(f"cannot listen on {host}:{port}: {error.strerror}", code="port_in_use") from error
    listener.setblocking(False)
    return listener


@asynccontextmanager
async def listening(
    app: ASGIApp,
    listener: socket.socket,
    *,
    drain_seconds: float,
    most_connections: int = MOST_CONNECTIONS,
    websockets: bool = False,
) -> AsyncGenerator[None]:
    """Serve `app` on `listener` inside the block; the end waits up to `drain_seconds` for requests in progress.

    When there are more than `most_connections`, or than the process may open files, the connection that is idle
    longest is closed; when all others have a request, that is the newest. WebSockets are refused unless `websockets`.
    """
    door = _door(most_connections)
    config = uvicorn.Config(
        app,
        http=type("ConnectionOfListener", (Connection,), {"door": door}),
        lifespan="off",
        ws=_WebSocket if websockets else "none",
        ws_max_size=LARGEST_WEBSOCKET_MESSAGE,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        ws_per_message_deflate=False,  # a few bytes could become 16 MiB
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,  # uvicorn would trust every local process; trusted proxies are a setting
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
    )
    server = _Server(config, door)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.ending.set()
        await serving
        listener.close()
