"""Counts the requests under way, so that a shutdown can wait for the last of them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class UnderWay:
    """The requests under way. When `stopping`, new ones are refused."""

    stopping: bool = False
    _count: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._idle.set()

    @contextmanager
    def serving(self) -> Generator[None]:
        """Count a request."""
        self._count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()

    async def finish(self) -> None:
        """Refuse new requests, and wait for those under way."""
        self.stopping = True
        await self._idle.wait()
