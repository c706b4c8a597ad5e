"""Refuse calls when a budget for the day is used up, and say how much an admitted turn may spend. A layer of admission.

Budgets are set by operators (bucket `budgets`) and by teams (in definitions); all that apply hold. What was spent is in
the bucket `spending`, a second or two behind the log. Both are kept in memory, so a check waits for nothing. While they
cannot be read, the last known state holds.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Literal

from pallas_bus.connection import Bus
from pallas_bus.kv import Table, watch
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import BUDGETS, SPENDING
from pallas_contracts.costs import (
    NO_SPENDING,
    Allowance,
    Budget,
    Cost,
    GrantedBudget,
    Spending,
    TeamBudget,
    day_of,
    next_day,
)
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal, TurnRequested, caller_token
from pallas_turns.metrics import CallMetrics
from pallas_turns.model import Refusal

type BudgetLimit = Literal["team_budget", "caller_budget"]


@dataclass(frozen=True, slots=True)
class AppliedBudget:
    """A budget, and what was spent of it today. `whose` begins the sentence of a refusal."""

    limit: BudgetLimit
    whose: str
    budget: Budget
    spent: Spending

    def used_up(self) -> str | None:
        """How much of it is used, when nothing is left."""
        most, money, paid = self.budget.tokens_per_day, self.budget.money, self._paid
        if most is not None and self.spent.tokens >= most:
            return f"{self.spent.tokens:,} of {most:,} tokens"
        if money is not None and paid.nanos >= money.nanos:
            return f"{paid} of {money}"
        return None

    @property
    def share(self) -> float:
        """The part that is used, at most 1; of a budget of nothing, 1."""
        most, money = self.budget.tokens_per_day, self.budget.money
        parts = [self.spent.tokens / most if most else 1.0] if most is not None else []
        parts += [self._paid.nanos / money.nanos if money.nanos else 1.0] if money is not None else []
        return min(1.0, max(parts, default=0.0))

    @property
    def tokens_left(self) -> int | None:
        """None: it does not limit tokens."""
        most = self.budget.tokens_per_day
        return most - self.spent.tokens if most is not None else None

    @property
    def money_left(self) -> Cost | None:
        """None: it does not limit money."""
        money = self.budget.money
        return Cost(nanos=money.nanos - self._paid.nanos, currency=money.currency) if money is not None else None

    @property
    def _paid(self) -> Cost:
        currency = self.budget.currency
        return Cost(nanos=self.spent.money.get(currency, 0), currency=currency)


def refusal_of(applied: AppliedBudget, used: str, now: datetime) -> Refusal:
    """The refusal by a budget of which `used` is used up."""
    resets = next_day(now)
    text = f"{applied.whose} for today is used up: {used}. It resets at {resets:%Y-%m-%d %H:%M} UTC."
    wait = round((resets - now).total_seconds() * 1000)
    return Refusal("budget_exhausted", text, wait, limit=applied.limit)


def allowance_of(applied: Sequence[AppliedBudget]) -> Allowance:
    """What is left of all of them: the least of tokens, and of each currency."""
    tokens = [left for each in applied if (left := each.tokens_left) is not None]
    money: dict[str, Cost] = {}
    for each in applied:
        left = each.money_left
        if left is not None and (left.currency not in money or left.nanos < money[left.currency].nanos):
            money[left.currency] = left
    return Allowance(tokens=min(tokens, default=None), money=tuple(money.values()))


@dataclass
class Budgets:
    """The budgets of all teams and callers. `now` is the clock by which days begin. Made by `watch_budgets`."""

    granted: Table[GrantedBudget]
    spending: Table[Spending]
    now: Callable[[], datetime] = utc_now
    metrics: CallMetrics | None = None
    _counted: dict[str, Spending] = field(default_factory=dict[str, Spending])
    _sums: dict[tuple[str, str, str], Spending] = field(default_factory=dict["tuple[str, str, str]", Spending])

    def __post_init__(self) -> None:
        self.spending.on_change(self._changed)

    def missing(self) -> str | None:
        """What is not known yet; None if everything was read."""
        return None if self.granted.synced.is_set() and self.spending.synced.is_set() else "not read yet"

    def admit(self, request: TurnRequested, limits: Limits) -> Refusal | Allowance | None:
        """Check the budgets of a turn, as `CheckBudget` says. A team's part is reported from its first turn on."""
        own = limits.budget
        if own is None and not len(self.granted):
            return None
        found = self.check(request.team, request.principal, own)
        of_team = isinstance(found, Allowance) or (found is not None and found.limit == "team_budget")
        if of_team and self.metrics is not None:
            self.metrics.budget_applies(request.team, partial(self.share, request.team, own))
        return found

    def check(self, team: str, caller: Principal, own: TeamBudget | None) -> Refusal | Allowance | None:
        """Why a turn is refused, or what it may spend; None: no budget applies. `own` is what the team has set."""
        now = self.now()
        applied = list(self._applied(day_of(now), team, caller.token, own))
        for each in applied:
            if (used := each.used_up()) is not None:
                return refusal_of(each, used, now)
        return allowance_of(applied) if applied else None

    def share(self, team: str, own: TeamBudget | None) -> float:
        """The part of the budget of a team that is used today, from 0 to 1."""
        return max((each.share for each in self._of_team(day_of(self.now()), team, own)), default=0.0)

    def _applied(self, day: str, team: str, caller: str, own: TeamBudget | None) -> Iterator[AppliedBudget]:
        yield from self._of_team(day, team, own)
        if (granted := self.granted.get(f"caller.{caller}") or self.granted.get("every.caller")) is not None:
            spent = self._sums.get((day, "caller", caller), NO_SPENDING)
            yield AppliedBudget("caller_budget", "Your budget", granted, spent)
        if own is not None and own.per_caller is not None:
            spent = self._sums.get((day, f"caller of {team}", caller), NO_SPENDING)
            yield AppliedBudget("caller_budget", f"Your budget at team {team!r}", own.per_caller, spent)

    def _of_team(self, day: str, team: str, own: TeamBudget | None) -> Iterator[AppliedBudget]:
        granted = self.granted.get(f"team.{team}") or self.granted.get("every.team")
        spent = self._sums.get((day, "team", team), NO_SPENDING)
        for budget in (granted, own):
            if budget is not None:
                yield AppliedBudget("team_budget", f"The budget of team {team!r}", budget, spent)

    def _changed(self, key: str, entry: Spending | None) -> None:
        """Keep the sums of the team, of the caller and of both in step with one entry."""
        before = self._counted.pop(key, None)
        if before is not None:
            self._add(before, -1)
        if entry is not None:
            self._counted[key] = entry
            self._add(entry, 1)

    def _add(self, entry: Spending, sign: int) -> None:
        caller = caller_token(entry.caller)
        for kind, name in (("team", entry.team), ("caller", caller), (f"caller of {entry.team}", caller)):
            key = entry.day, kind, name
            total = self._sums.get(key, NO_SPENDING).plus(entry, sign)
            if total.calls:
                self._sums[key] = total
            else:
                self._sums.pop(key, None)


@asynccontextmanager
async def watch_budgets(bus: Bus, metrics: CallMetrics | None = None) -> AsyncGenerator[Budgets]:
    """Keep budgets and spending in memory inside the block, to admit turns with (`Budgets.admit`)."""
    async with watch(bus, BUDGETS) as granted, watch(bus, SPENDING) as spending:
        yield Budgets(granted, spending, metrics=metrics)
