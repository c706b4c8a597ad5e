"""The requests that are being served, and waiting for the last of them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class UnderWay:
    """`stopping` means that nothing new is taken."""

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
        """Take nothing new and wait for what is under way."""
        self.stopping = True
        await self._idle.wait()
