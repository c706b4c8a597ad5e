"""Limits on turns per second, of an agent and of each of its callers: token buckets with a burst of one second.

A process counts only its own turns, so it enforces its share of a rate: the rate divided by the number of processes
that make turns.

The limit on what one team may store at the broker is here, too (`StoreShares`): it is measured now and then.
"""

import logging
import math
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from pallas_bus.history.store_use import StoreUse
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import polling
from pallas_calls.model import Refusal
from pallas_contracts.agents import Limits
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

MOST_CALLERS = 10_000
"""Callers that are remembered; beyond that the bucket of the least recent caller is dropped."""

_SLOWEST = 1 / 3600
"""The lowest rate that is enforced: one turn per hour."""


@dataclass(frozen=True, slots=True)
class TooFast:
    """The rate that a turn would exceed, in turns per second, and the seconds until it would not."""

    limit: Literal["rate", "caller_rate"]
    rate: float
    seconds: float


@dataclass(slots=True)
class _Bucket:
    rate: float = 0.0
    tokens: float = math.inf
    at: float = 0.0

    def due(self, rate: float, now: float) -> float:
        """Refill it at `rate`; return the seconds until there is a token, 0 when there is one."""
        self.tokens = min(max(1.0, rate), self.tokens + (now - self.at) * rate)
        self.rate, self.at = rate, now
        return max(0.0, 1 - self.tokens) / rate

    def full(self, now: float) -> bool:
        """Whether it is as full as a new bucket."""
        return self.tokens + (now - self.at) * self.rate >= max(1.0, self.rate)


@dataclass
class TurnRates:
    """`processes()` returns the number of processes that make turns."""

    processes: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    _agents: dict[tuple[str, str], _Bucket] = field(default_factory=dict[tuple[str, str], _Bucket])
    _callers: dict[tuple[str, str, str], _Bucket] = field(default_factory=dict[tuple[str, str, str], _Bucket])

    @property
    def remembered(self) -> int:
        """How many callers have a bucket."""
        return len(self._callers)

    def take(self, team: str, agent: str, caller: str, limits: Limits) -> TooFast | None:
        """Count a turn, or count nothing and return the rate that it would exceed."""
        now, processes = self.clock(), max(1, self.processes())
        taken: list[_Bucket] = []
        late: list[TooFast] = []
        if (rate := limits.max_rate) is not None:
            taken.append(self._agents.setdefault((team, agent), _Bucket(at=now)))
            late.append(TooFast("rate", rate, taken[-1].due(max(rate / processes, _SLOWEST), now)))
        if (rate := limits.max_rate_per_caller) is not None:
            taken.append(self._of_caller((team, agent, caller), now))
            late.append(TooFast("caller_rate", rate, taken[-1].due(max(rate / processes, _SLOWEST), now)))
        worst = max(late, key=lambda each: each.seconds, default=None)
        if worst is not None and worst.seconds > 0:
            return worst
        for bucket in taken:
            bucket.tokens -= 1
        return None

    def _of_caller(self, key: tuple[str, str, str], now: float) -> _Bucket:
        """The caller's bucket, moved to the end. Full buckets at the start are dropped: a new one would be the same."""
        bucket = self._callers.pop(key, None) or _Bucket(at=now)
        while self._callers:
            oldest = next(iter(self._callers))
            if len(self._callers) < MOST_CALLERS and not self._callers[oldest].full(now):
                break
            del self._callers[oldest]
        self._callers[key] = bucket
        return bucket


STORE_BYTES = 32 * 1024**3
TEAM_SHARE = 0.5
"""What the broker may store, and the part of it that one team may take, unless it is configured."""

_FOR_NEW_TURNS = 0.9
"""The part of the store that is for new turns."""

MEASURED_EVERY = 2.0
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
    async with polling(bus, shares.measure, MEASURED_EVERY):
        yield shares
