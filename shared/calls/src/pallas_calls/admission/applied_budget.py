"""One budget that applies to a call: what is left of it, and why it refuses the call when nothing is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pallas_calls.model import Refusal
from pallas_contracts.costs import Allowance, Budget, Cost, Spending, next_day

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
