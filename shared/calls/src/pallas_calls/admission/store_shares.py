"""Refuse calls of a team that stores more than its share, so that it cannot fill the broker's store for all others.

The last part of the store is for turns that are under way, which have to write their claims and outcomes.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pallas_bus.history.store_use import StoreUse
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.polling import polling
from pallas_calls.model import Refusal
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

STORE_BYTES = 32 * 1024**3
TEAM_SHARE = 0.5
"""What the broker may store, and the part of it that one team may take, unless it is configured."""

_FOR_NEW_TURNS = 0.9
"""The part of the store that is for new turns."""

EVERY = 2.0
"""Seconds between two measurements."""

_RETRY_AFTER_MS = 30_000
_MIB = 1024**2


@dataclass
class StoreShares:
    """The store has `size` bytes, and one team may take the part `share` of it."""

    use: StoreUse
    size: int
    share: float

    def check(self, team: str) -> Refusal | None:
        """Why a turn of the team is refused; None: there is room for it."""
        most, taken = self._most, self.use.teams.get(team, 0)
        if taken > most:
            message = (
                f"Team {team!r} has used up its share of the platform's store: about {taken // _MIB} of {most // _MIB} "
                "MiB. What its turns have stored expires; try again later."
            )
            return Refusal("busy", message, _RETRY_AFTER_MS, limit="team_store")
        if self.use.total > _FOR_NEW_TURNS * self.size:
            message = "The platform's store is almost full, and takes no further turn. Try again later."
            return Refusal("busy", message, _RETRY_AFTER_MS, limit="store")
        return None

    async def measure(self) -> None:
        """Measure once. When the broker does not answer, what is known holds."""
        before = self._over()
        try:
            await self.use.measure(self._most)
        except Unavailable as error:
            log.debug("the store cannot be measured", extra={"reason": error.message})
        for team in self._over() - before:
            log.warning(
                "a team has used up its share of the store", extra={"team": team, "bytes": self.use.teams[team]}
            )

    @property
    def _most(self) -> int:
        return int(self.share * self.size)

    def _over(self) -> set[str]:
        return {team for team, taken in self.use.teams.items() if taken > self._most}


@asynccontextmanager
async def watch_store(bus: Bus, size: int = STORE_BYTES, share: float = TEAM_SHARE) -> AsyncGenerator[StoreShares]:
    """Keep measuring inside the block."""
    shares = StoreShares(StoreUse(bus), size, share)
    async with polling(bus, shares.measure, EVERY):
        yield shares
