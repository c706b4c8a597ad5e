"""Looks once a second whether what the service needs is there, for its readiness and for nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from pallas_contracts.errors import Unavailable

INTERVAL = 1.0
NOT_ASKED = "not asked yet"


@dataclass
class Needs:
    """What is needed, by a word, and how to see that it is there."""

    pings: Mapping[str, Callable[[], Awaitable[None]]]
    _missing: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def missing(self, word: str) -> str | None:
        """What is wrong with it; None when it is there."""
        return self._missing.get(word, NOT_ASKED)

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.gather(*(self._look(word, ping) for word, ping in self.pings.items()))
            await asyncio.sleep(INTERVAL)

    async def _look(self, word: str, ping: Callable[[], Awaitable[None]]) -> None:
        try:
            await ping()
        except Unavailable as error:
            self._missing[word] = error.message
        else:
            self._missing[word] = None
