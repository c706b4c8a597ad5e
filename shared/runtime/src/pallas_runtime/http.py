"""An HTTP listener that can be started and drained at any time, without taking over the process's signals.

uvicorn waits for ever for the headers of a request, and accepts any number of connections. Here both have a bound.
"""

import asyncio
import resource
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pallas_contracts.errors import Rejected

HEADER_SECONDS = 5.0
"""How long the headers of a request may take from its first byte; those of the first, from when somebody connects."""
MOST_CONNECTIONS = 20_000
SPARE_FILES = 100
"""Files that connections of callers leave to the rest of the process."""
_LAST_CHANCE = 0.1


class _Connection(HttpToolsProtocol):
    """A connection. A listener has a subclass, with how many there may be and which are `waiting` for a request."""

    most: int
    waiting: "dict[_Connection, None]"
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.waiting[self] = None
        self._expect()
        if len(self.connections) > self.most:
            next(iter(self.waiting))._end()

    def data_received(self, data: bytes) -> None:
        if self in self.waiting and self._deadline is None:
            self._expect()
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._forget()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self.waiting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._late)

    def _late(self) -> None:
        # What has come while the process stood still is read first.
        self._deadline = self.loop.call_later(_LAST_CHANCE, self._end)

    def _end(self) -> None:
        self._forget()
        self.transport.close()

    def _forget(self) -> None:
        self.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _protocol(most: int) -> type[_Connection]:
    """What serves the connections of one listener."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    bound = most if files == resource.RLIM_INFINITY else min(most, max(1, files - SPARE_FILES))
    return type("Connection", (_Connection,), {"most": bound, "waiting": {}})


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def bind(host: str, port: int) -> socket.socket:
    """Bind a listening socket; port 0 picks a free one.

    Raises:
        Rejected: the address is in use or cannot be had (`port_in_use`).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, or asyncio leaves Nagle's algorithm on for whoever connects: 40 ms for a small answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise Rejected(f"cannot listen on {host}:{port}: {error.strerror}", code="port_in_use") from error
    listener.setblocking(False)
    return listener


@asynccontextmanager
async def listening(
    app: ASGIApp, listener: socket.socket, *, drain_seconds: float, most_connections: int = MOST_CONNECTIONS
) -> AsyncGenerator[None]:
    """Serve `app` on `listener` inside the block; leaving it waits `drain_seconds` for what is under way.

    When there are more than `most_connections`, or the process has no more files to open, the one that has waited
    longest without a request is closed: the newest, where all others have one.
    """
    config = uvicorn.Config(
        app,
        http=_protocol(most_connections),
        lifespan="off",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,  # uvicorn would believe every process of this machine; who may be believed is a setting
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        listener.close()
