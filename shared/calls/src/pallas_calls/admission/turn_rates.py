"""Limits on turns per second, of an agent and of each of its callers: token buckets with a burst of one second.

A process counts only its own turns, so it enforces its share of a rate: the rate divided by the number of processes
that make turns.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pallas_contracts.agents import Limits

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
