"""An HTTP listener that can be started and drained at any time, without taking over the process's signals."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from pallas_contracts.errors import Rejected


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
async def listening(app: ASGIApp, listener: socket.socket, *, drain_seconds: float) -> AsyncGenerator[None]:
    """Serve `app` on `listener` inside the block; leaving it waits `drain_seconds` for what is under way."""
    config = uvicorn.Config(
        app,
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
