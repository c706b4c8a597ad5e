"""The port of a stand-in: it can be closed and opened again while the application goes on."""

import asyncio
import socket
import struct
from contextlib import suppress

from starlette.types import ASGIApp, Scope
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState


class Listener:
    """Serves an application on a port of the loopback."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._server: asyncio.Server | None = None
        self._state = ServerState()

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    async def open(self, app: ASGIApp) -> None:
        """Accept connections. A port of 0 becomes a free one, which it keeps."""
        if self._server is not None:
            return
        config = Config(app, lifespan="off", access_log=False, log_level="warning")
        config.load()

        def connection() -> asyncio.Protocol:
            return HttpToolsProtocol(config=config, server_state=self._state, app_state={})

        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(connection, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections and break those that are open."""
        if self._server is not None:
            server, self._server = self._server, None
            for listening in server.sockets:
                asyncio.get_running_loop().remove_reader(listening)
            await asyncio.sleep(0)  # asyncio would lose a connection that it has just accepted, and leave it open
            server.close()
            server.abort_clients()

    async def idle(self) -> None:
        """Wait until the requests of broken connections have ended."""
        for task in list(self._state.tasks):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task

    def reset(self, scope: Scope) -> None:
        """Break the connection of a request with a TCP reset."""
        for connection in list(self._state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None and transport.get_extra_info("peername")[:2] == tuple(scope["client"]):
                raw: socket.socket = transport.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                transport.abort()
