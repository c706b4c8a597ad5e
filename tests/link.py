"""A loopback port in front of a server, which can be cut and restored: a network that fails while the server runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from pallas_runtime.http.listener import stop_accepting


class Link:
    """Forwards connections to `url`'s server, what clients send after a `delay` in seconds.

    Made by `linked`; `url` is the way through it.
    """

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._port = 0
        self._swallows = False
        self.swallowed = asyncio.Event()
        self.delay = 0.0

    @property
    def url(self) -> str:
        """The URL of this link, which stays the same after a cut."""
        return f"{self._target.scheme}://127.0.0.1:{self._port}"

    def swallow(self) -> None:
        """From now on, until it is mended, lose what clients send; `swallowed` is set when something was lost."""
        self._swallows = True

    def forward(self) -> None:
        """Forward data again over the existing connections."""
        self._swallows = False
        self.swallowed.clear()

    def say(self, data: bytes) -> None:
        """Send data to all clients as if the server had sent it."""
        for client in self._clients:
            client.write(data)

    async def mend(self, target: str | None = None) -> None:
        """Let connections through (again), to another server when `target` is one."""
        self._target = urlsplit(target) if target is not None else self._target
        self.forward()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Break every connection and refuse new ones."""
        if self._server is not None:
            server, self._server = self._server, None
            await stop_accepting(server)
            server.close()
        for relay in list(self._relays):
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:  # it came as the link was cut
            return writer.close()
        relay = asyncio.current_task()
        assert relay is not None
        self._relays.add(relay)
        self._clients.add(writer)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._relay(reader, writer)
        finally:
            self._relays.discard(relay)
            self._clients.discard(writer)
            writer.close()

    async def _pump_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self._swallows:
                self.swallowed.set()
                continue
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump_in(reader, far_writer))
                both.create_task(_pump(far_reader, writer))
        except* OSError:
            pass
        finally:
            far_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError


@asynccontextmanager
async def linked(target: str) -> AsyncGenerator[Link]:
    """A link to the server at `target`, connected at first."""
    link = Link(target)
    await link.mend()
    try:
        yield link
    finally:
        await link.cut()
