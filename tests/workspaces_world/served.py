"""An ASGI application on a port of its own, which it keeps while it is stopped and started again."""

from contextlib import AsyncExitStack
from typing import Self

from starlette.types import ASGIApp
from tests.embedded import free_port

from pallas_runtime.http.listener import bind, listening


class Served:
    """Serves `app`. Use it as an async context manager."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.port = free_port()
        self._running: AsyncExitStack | None = None

    @property
    def base(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen."""
        if self._running is None:
            self._running = AsyncExitStack()
            listener = bind("127.0.0.1", self.port)
            await self._running.enter_async_context(listening(self._app, listener, drain_seconds=0))

    async def stop(self) -> None:
        """Refuse connections, and cut those that are open."""
        running, self._running = self._running, None
        if running is not None:
            await running.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
