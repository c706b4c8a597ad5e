"""Checks the dependencies of the service once a second, for its readiness."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from pallas_contracts.errors import Unavailable

INTERVAL = 1.0
NOT_CHECKED = "not checked yet"


@dataclass
class Needs:
    """The dependencies by name, each with its check."""

    pings: Mapping[str, Callable[[], Awaitable[None]]]
    _missing: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def missing(self, word: str) -> str | None:
        """What is wrong with a dependency; None if nothing."""
        return self._missing.get(word, NOT_CHECKED)

    async def watch(self) -> None:
        """Check once a second, until cancelled."""
        while True:
            await asyncio.gather(*(self._check(word, ping) for word, ping in self.pings.items()))
            await asyncio.sleep(INTERVAL)

    async def _check(self, word: str, ping: Callable[[], Awaitable[None]]) -> None:
        try:
            await ping()
        except Unavailable as error:
            self._missing[word] = error.message
        else:
            self._missing[word] = None
