"""Turns per second: bursts of one second, shares of a replica, callers that are forgotten."""

import pytest

from pallas_contracts.agents import Limits
from pallas_turns import admission as limits
from pallas_turns.admission import TooFast, TurnRates


class Clock:
    """A clock that the test sets, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Rates:
    """The rates of one agent of a gateway that has `others` beside it."""

    def __init__(self, others: int = 0, **limits: float) -> None:
        self.clock = Clock()
        self.gateways = 1 + others
        self.rates = TurnRates(lambda: self.gateways, self.clock)
        self.limits = Limits.model_validate(limits)

    def take(self, caller: str = "ada") -> TooFast | None:
        return self.rates.take("demo", "harper", caller, self.limits)

    def burst(self, caller: str = "ada") -> int:
        """How many turns are taken at once."""
        return next(number for number in range(1000) if self.take(caller) is not None)


def test_without_limits_every_turn_is_taken_and_no_caller_is_remembered() -> None:
    rates = Rates()
    assert all(rates.take(f"caller {number}") is None for number in range(1000))
    assert rates.rates.remembered == 0


@pytest.mark.parametrize(("rate", "burst"), [(5, 5), (1, 1), (0.1, 1), (2.5, 2)])
def test_a_burst_is_the_turns_of_one_second_and_at_least_one(rate: float, burst: int) -> None:
    assert Rates(max_rate=rate).burst() == burst


def test_a_refused_turn_is_taken_after_the_seconds_that_the_refusal_names() -> None:
    rates = Rates(max_rate=4)
    assert rates.burst() == 4
    late = rates.take()
    assert late is not None
    assert (late.limit, late.rate, late.seconds) == ("rate", 4, pytest.approx(0.25))
    rates.clock.now += late.seconds
    assert rates.take() is None
    assert rates.take() is not None


def test_a_refused_turn_is_not_counted() -> None:
    rates = Rates(max_rate=1)
    assert rates.take() is None
    for _ in range(100):
        assert rates.take() is not None
    rates.clock.now += 1
    assert rates.take() is None


def test_each_caller_has_a_rate_of_its_own() -> None:
    rates = Rates(max_rate_per_caller=2)
    assert (rates.burst("ada"), rates.burst("bob")) == (2, 2)
    late = rates.take("ada")
    assert late is not None
    assert late.limit == "caller_rate"


def test_a_turn_that_one_rate_refuses_is_not_counted_by_the_other() -> None:
    rates = Rates(max_rate=10, max_rate_per_caller=1)
    assert rates.burst("ada") == 1
    assert [rates.burst(f"caller {number}") for number in range(10)] == [1] * 9 + [0]


def test_a_replica_enforces_its_share_of_the_rate() -> None:
    rates = Rates(others=3, max_rate=8)
    assert rates.burst() == 2
    rates.clock.now += 0.5
    assert rates.burst() == 1
    rates.gateways = 1
    rates.clock.now += 1
    assert rates.burst() == 8


def test_a_rate_of_zero_is_one_turn_an_hour() -> None:
    rates = Rates(max_rate=0)
    assert rates.burst() == 1
    late = rates.take()
    assert late is not None
    assert late.seconds == pytest.approx(3600)


def test_callers_that_may_make_a_whole_burst_again_are_forgotten() -> None:
    rates = Rates(max_rate_per_caller=1)
    for number in range(100):
        rates.take(f"caller {number}")
    rates.clock.now += 1
    rates.take("ada")
    assert rates.rates.remembered == 1


def test_the_number_of_remembered_callers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CALLERS", 10)
    rates = Rates(max_rate_per_caller=1)
    for number in range(100):
        rates.take(f"caller {number}")
    assert rates.rates.remembered == 10
    assert rates.take("caller 99") is not None
