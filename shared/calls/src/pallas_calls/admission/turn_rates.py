"""Turns per second, of an agent and of each of its callers: token buckets that hold what one second brings.

A replica knows only what comes through itself, so it enforces its share of a rate: as if callers were spread evenly
over the gateways that live.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pallas_contracts.agents import Limits

MOST_CALLERS = 10_000
"""Callers that are remembered; of more, those that have called the longest time ago start afresh."""

_SLOWEST = 1 / 3600
"""The rate that anything below counts as: one turn an hour."""


@dataclass(frozen=True, slots=True)
class TooFast:
    """The rate that a turn would break, in turns per second, and the seconds until it would not."""

    limit: Literal["rate", "caller_rate"]
    rate: float
    seconds: float


@dataclass(slots=True)
class _Bucket:
    rate: float = 0.0
    tokens: float = math.inf
    at: float = 0.0

    def due(self, rate: float, now: float) -> float:
        """Fill it up at `rate`; returns the seconds until there is a token, 0 when there is one."""
        self.tokens = min(max(1.0, rate), self.tokens + (now - self.at) * rate)
        self.rate, self.at = rate, now
        return max(0.0, 1 - self.tokens) / rate

    def full(self, now: float) -> bool:
        """Whether it is what a new one would be."""
        return self.tokens + (now - self.at) * self.rate >= max(1.0, self.rate)


@dataclass
class TurnRates:
    """`gateways()` says how many gateways live. Nothing here waits."""

    gateways: Callable[[], int]
    clock: Callable[[], float] = time.monotonic
    _agents: dict[tuple[str, str], _Bucket] = field(default_factory=dict[tuple[str, str], _Bucket])
    _callers: dict[tuple[str, str, str], _Bucket] = field(default_factory=dict[tuple[str, str, str], _Bucket])

    @property
    def remembered(self) -> int:
        """How many callers are known."""
        return len(self._callers)

    def take(self, team: str, agent: str, caller: str, limits: Limits) -> TooFast | None:
        """Count a turn, unless it comes too fast: then nothing is counted, and this says of which rate it is."""
        now, gateways = self.clock(), max(1, self.gateways())
        taken: list[_Bucket] = []
        late: list[TooFast] = []
        if (rate := limits.max_rate) is not None:
            taken.append(self._agents.setdefault((team, agent), _Bucket(at=now)))
            late.append(TooFast("rate", rate, taken[-1].due(max(rate / gateways, _SLOWEST), now)))
        if (rate := limits.max_rate_per_caller) is not None:
            taken.append(self._of_caller((team, agent, caller), now))
            late.append(TooFast("caller_rate", rate, taken[-1].due(max(rate / gateways, _SLOWEST), now)))
        worst = max(late, key=lambda each: each.seconds, default=None)
        if worst is not None and worst.seconds > 0:
            return worst
        for bucket in taken:
            bucket.tokens -= 1
        return None

    def _of_caller(self, key: tuple[str, str, str], now: float) -> _Bucket:
        """The caller's bucket, from now on the last in order; the first are forgotten when that changes nothing."""
        bucket = self._callers.pop(key, None) or _Bucket(at=now)
        while self._callers:
            oldest = next(iter(self._callers))
            if len(self._callers) < MOST_CALLERS and not self._callers[oldest].full(now):
                break
            del self._callers[oldest]
        self._callers[key] = bucket
        return bucket
