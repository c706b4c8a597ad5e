"""Check that a turn can be executed, its budgets, and its limits, before anything of it exists.

The limits are those of the store, of waiting turns, and of turns per second. Rates, of an agent and of each of its
callers, are token buckets with a burst of one second. A process counts only its own turns, so it enforces its share of
a rate: the rate divided by the number of processes that make turns.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from pallas_bus.kv import Table
from pallas_contracts.agents import Limits, WorkerPresence
from pallas_contracts.costs import Allowance
from pallas_contracts.turns import TurnRequested
from pallas_turns.model import AGENT_RETRY_AFTER_MS, CheckBudget, Refusal
from pallas_turns.positions import QueuePositions
from pallas_turns.store import StoreShares

HELD_RETRY_AFTER_MS = 60_000
"""An operator decides how long it takes."""

_WHY = "Pallas takes no turns at the moment: its operators check what was under way before. Try again later."

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


@dataclass
class AdmitTurn:
    """The limits of all agents. An admitted turn must be `entering` before the next await, or it is not counted."""

    presences: Table[WorkerPresence]
    positions: QueuePositions
    rates: TurnRates
    store: StoreShares
    budget: CheckBudget | None = None

    async def admit_turn(self, request: TurnRequested, limits: Limits) -> Refusal | Allowance | None:
        """Count the turn, or return why it is refused. A turn that the queue refuses does not count for the rates.

        Returns what an admitted turn may spend on models; None: as much as it likes.
        """
        team, agent, caller = request.team, request.agent, request.principal.token
        key = f"{team}.{agent}"
        if not any(worker.held is None and key in worker.agents for worker in self.presences.values()):
            refused = failed_to_start(self.presences, team, agent) or held(self.presences.values(), team, agent)
            if refused is not None:
                return refused
        allowed = self.budget(request, limits) if self.budget is not None else None
        if isinstance(allowed, Refusal):
            return allowed
        if (no_room := self.store.check(team)) is not None:
            return no_room
        if (full := await self.positions.full(team, agent, caller, limits.max_queued)) is not None:
            turns, each = ("of your turns", " per caller") if full.limit == "caller" else ("turns", "")
            message = f"Too many {turns} of this agent are waiting; the limit is {full.most}{each}. Try again shortly."
            return Refusal("busy", message, full.retry_after_ms, limit=full.limit)
        limited = limits.max_rate is not None or limits.max_rate_per_caller is not None
        if limited and (late := self.rates.take(team, agent, caller, limits)) is not None:
            each = " from each caller" if late.limit == "caller_rate" else ""
            message = f"This agent accepts at most {late.rate:g} turns per second{each}. Try again shortly."
            return Refusal("busy", message, math.ceil(late.seconds * 1000), limit=late.limit)
        return allowed


def failed_to_start(workers: Table[WorkerPresence], team: str, agent: str) -> Refusal | None:
    """The refusal of a call whose agent failed to start on every worker that hosts its team, else None."""
    key = f"{team}.{agent}"
    reason: str | None = None
    for worker in workers.values():
        if key in worker.agents:
            return None
        reason = reason or worker.failed.get(key)
    if reason is None:
        return None
    return Refusal("agent_failed", f"The agent could not be started: {reason}", AGENT_RETRY_AFTER_MS)


def held(workers: Iterable[WorkerPresence], team: str, agent: str) -> Refusal | None:
    """The refusal of a call whose agent is held on every worker that has it, else None."""
    key = f"{team}.{agent}"
    having = [worker.held for worker in workers if key in worker.agents]
    if not having or None in having:
        return None
    return Refusal("busy", _WHY, HELD_RETRY_AFTER_MS, limit="hold")


log = logging.getLogger(__name__)
