"""Checks the database once a second, for readiness and `get_health`.

It uses a connection of its own, so that queries of callers do not delay it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_contracts.errors import Unavailable

INTERVAL, ANSWER_SECONDS = 1.0, 3.0


@dataclass
class Needs:
    """The state of the database, as of the last check."""

    ping: Callable[[], Awaitable[None]]
    _wrong: str | None = "not checked yet"

    def missing(self) -> str | None:
        """What is wrong with the database; None if nothing."""
        return self._wrong

    async def watch(self) -> None:
        """Check once a second, until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(INTERVAL)

    async def check(self) -> None:
        """Check once."""
        try:
            await self.ping()
        except Unavailable as error:
            self._wrong = error.message
        else:
            self._wrong = None
