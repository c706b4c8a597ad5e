"""Looks once a second whether the database is there, for the service's readiness and for `get_health`.

It does so by a connection of its own: queries of callers do not delay it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_contracts.errors import Unavailable

INTERVAL, ANSWER_SECONDS = 1.0, 3.0


@dataclass
class Needs:
    """The database, and how to see that it is there."""

    ping: Callable[[], Awaitable[None]]
    _wrong: str | None = "not asked yet"

    def missing(self) -> str | None:
        """What is wrong with it; None when it is there."""
        return self._wrong

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """Look once."""
        try:
            await self.ping()
        except Unavailable as error:
            self._wrong = error.message
        else:
            self._wrong = None
