"""Budgets: which ones apply to a call, when they are used up, and what a turn may spend."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_bus.kv import Table
from pallas_contracts.catalog import BUDGETS, SPENDING
from pallas_contracts.costs import Allowance, Budget, Cost, GrantedBudget, Spending, TeamBudget
from pallas_contracts.turns import Principal, caller_token
from pallas_turns.budgets import Budgets
from pallas_turns.model import Refusal

NOW = datetime(2026, 11, 25, 22, 30, tzinfo=UTC)
TODAY, YESTERDAY = "2026-11-25", "2026-11-24"
ADA, BOB = Principal(type="user", id="ada"), Principal(type="user", id="bob")


class Lab:
    """The budgets of one process, without a broker."""

    def __init__(self) -> None:
        nowhere: Any = None
        self.budgets = Budgets(Table(nowhere, BUDGETS), Table(nowhere, SPENDING), lambda: self.now)
        self.now = NOW
        self.position = 0

    def grant(self, key: str, **budget: Any) -> None:
        kind, name = key.split(".")
        self.position += 1
        value = GrantedBudget.model_validate({"kind": kind, "name": name, "set_at": NOW, **budget})
        self.budgets.granted.changed(key, value, self.position)

    def spend(
        self, tokens: int, caller: Principal = ADA, *, team: str = "demo", day: str = TODAY, eur: int = 0
    ) -> None:
        """From now on, this is what was spent there."""
        self.position += 1
        money = {"EUR": eur * 1_000_000_000}
        entry = Spending(day=day, team=team, caller=caller.label, calls=1, input_tokens=tokens, money=money)
        self.budgets.spending.changed(f"{day}.{team}.{caller.token}", entry, self.position)

    def check(
        self, caller: Principal = ADA, own: TeamBudget | None = None, team: str = "demo"
    ) -> str | Allowance | None:
        """The sentence of a refusal, or what may be spent."""
        answer = self.budgets.check(team, caller, own)
        return answer.message if isinstance(answer, Refusal) else answer


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_without_a_budget_nothing_is_checked(lab: Lab) -> None:
    lab.spend(10**9)
    assert lab.check() is None
    lab.grant("team.other", tokens_per_day=1)
    assert lab.check() is None


def test_a_team_that_has_used_its_tokens_is_refused_until_midnight(lab: Lab) -> None:
    lab.grant("team.demo", tokens_per_day=1000)
    lab.spend(600)
    lab.spend(399, BOB)
    assert lab.check() == Allowance(tokens=1)
    lab.spend(400, BOB)
    refusal = lab.budgets.check("demo", ADA, None)
    assert isinstance(refusal, Refusal)
    assert refusal.message == (
        "The budget of team 'demo' for today is used up: 1,000 of 1,000 tokens. It resets at 2026-11-26 00:00 UTC."
    )
    assert (refusal.code, refusal.limit, refusal.retry_after_ms) == ("budget_exhausted", "team_budget", 5_400_000)
    assert lab.check(team="other") is None
    lab.now = datetime(2026, 11, 26, tzinfo=UTC)
    assert lab.check() == Allowance(tokens=1000)


def test_the_budget_of_a_caller_is_over_all_teams(lab: Lab) -> None:
    lab.grant(f"caller.{ADA.token}", tokens_per_day=1000)
    lab.spend(500)
    lab.spend(500, team="other")
    assert lab.check() == (
        "Your budget for today is used up: 1,000 of 1,000 tokens. It resets at 2026-11-26 00:00 UTC."
    )
    assert lab.check(BOB) is None


def test_what_is_set_for_one_replaces_what_is_set_for_every_one(lab: Lab) -> None:
    lab.grant("every.team", tokens_per_day=100)
    lab.grant("every.caller", tokens_per_day=0)
    lab.grant(f"caller.{ADA.token}", tokens_per_day=50)
    lab.grant("team.demo", tokens_per_day=1000)
    assert lab.check() == Allowance(tokens=50)
    assert str(lab.check(BOB)).startswith("Your budget for today is used up: 0 of 0 tokens.")
    assert str(lab.check(BOB, team="other")).startswith("Your budget for today")


def test_a_team_sets_budgets_below_what_the_operator_grants(lab: Lab) -> None:
    own = TeamBudget(tokens_per_day=800, per_caller=Budget(tokens_per_day=300))
    lab.grant("team.demo", tokens_per_day=1000)
    lab.spend(200)
    lab.spend(299, BOB)
    assert lab.check(ADA, own) == Allowance(tokens=100)
    assert lab.check(BOB, own) == Allowance(tokens=1)
    lab.spend(300, BOB)
    assert str(lab.check(BOB, own)).startswith("Your budget at team 'demo' for today is used up: 300 of 300 tokens.")
    lab.grant("team.demo", tokens_per_day=400)
    assert str(lab.check(ADA, own)).startswith("The budget of team 'demo' for today is used up: 500 of 400 tokens.")


def test_money_is_counted_in_the_currency_of_the_budget(lab: Lab) -> None:
    lab.grant("team.demo", money_per_day=2.5, currency="EUR")
    lab.grant("every.caller", money_per_day=1, currency="USD")
    lab.spend(1, eur=2)
    eur, usd = Cost(nanos=500_000_000, currency="EUR"), Cost(nanos=10**9, currency="USD")
    assert lab.check() == Allowance(money=(eur, usd))
    assert lab.budgets.share("demo", None) == 0.8
    lab.spend(1, BOB, eur=1)
    assert str(lab.check()).startswith("The budget of team 'demo' for today is used up: 3.00 EUR of 2.50 EUR.")
    assert lab.budgets.share("demo", None) == 1.0


def test_the_used_part_of_a_budget_of_nothing_is_all_of_it(lab: Lab) -> None:
    assert lab.budgets.share("demo", TeamBudget(tokens_per_day=0)) == 1.0
    assert lab.budgets.share("demo", None) == 0.0


@given(
    st.lists(
        st.tuples(st.sampled_from(["demo", "other"]), st.sampled_from([ADA, BOB]), st.integers(0, 99)), max_size=20
    )
)
def test_the_sums_are_those_of_the_entries_in_whatever_order_they_change(
    changes: list[tuple[str, Principal, int]],
) -> None:
    lab = Lab()
    last: dict[tuple[str, str], int] = {}
    lab.grant("every.team", tokens_per_day=10_000)
    for team, caller, tokens in changes:
        lab.spend(tokens, caller, team=team)
        last[team, caller.id] = tokens
    spent = sum(tokens for (team, _), tokens in last.items() if team == "demo")
    assert lab.check() == Allowance(tokens=10_000 - spent)


def test_what_was_spent_yesterday_and_what_has_expired_does_not_count(lab: Lab) -> None:
    lab.grant("team.demo", tokens_per_day=10)
    lab.spend(10, day=YESTERDAY)
    assert lab.check() == Allowance(tokens=10)
    lab.spend(10)
    lab.budgets.spending.changed(f"{TODAY}.demo.{ADA.token}", None, lab.position + 1)
    assert lab.check() == Allowance(tokens=10)
    assert caller_token("user:ada") == ADA.token
