"""How many requests are admitted: a token bucket for each agent of a caller, and a larger one for the caller.

An agent is what the header X-Constellation-Agent says, so a caller can name any number. All of them share the larger
bucket, so that invented names give a caller no more than many agents would have.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cachetools import LRUCache

from pallas_contracts.turns import Principal

AGENTS_OF_A_CALLER = 50
"""Agents of one caller that can use all of their rate at once (RFC-018, "Multi-Agent Team Scenario")."""

_MOST_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass
class Rates:
    """`per_minute` requests of an agent, and `burst` at once; the caller has that of `AGENTS_OF_A_CALLER` agents.

    Only the last 10,000 buckets are kept: one that was not used for long is full.
    """

    per_minute: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    _buckets: LRUCache[tuple[str, str | None], _Bucket] = field(default_factory=lambda: LRUCache(_MOST_BUCKETS))

    def admit(self, caller: Principal, agent: str | None) -> int | None:
        """Count a request; or the seconds after which it would be admitted, at least 1. Then it does not count."""
        mine = self._filled((caller.token, agent or ""), 1)
        all_of_caller = self._filled((caller.token, None), AGENTS_OF_A_CALLER)
        waits = (_missing(mine) * 60 / self.per_minute, _missing(all_of_caller) * 60 / self._of_caller)
        if max(waits) > 0:
            return max(1, math.ceil(max(waits)))
        mine.left -= 1
        all_of_caller.left -= 1
        return None

    @property
    def _of_caller(self) -> float:
        return self.per_minute * AGENTS_OF_A_CALLER

    def _filled(self, key: tuple[str, str | None], times: int) -> _Bucket:
        """The bucket with what has run into it meanwhile."""
        now, most = self.clock(), float(self.burst * times)
        bucket = self._buckets[key] = self._buckets.get(key) or _Bucket(most, now)
        bucket.left = min(most, bucket.left + (now - bucket.at) * self.per_minute * times / 60)
        bucket.at = now
        return bucket


def _missing(bucket: _Bucket) -> float:
    return max(0.0, 1 - bucket.left)
