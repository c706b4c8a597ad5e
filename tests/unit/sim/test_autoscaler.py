"""How many workers the simulated autoscaler wants."""

import pytest
import yaml
from tests.contract.tree import ROOT
from tests.sim.autoscaler import Autoscaler, Rules, recommended

RULES = Rules(target=10, least=0, most=8, polling=1, cooldown=60, stable=30, removed=0.5, removed_every=10, sync=5)


def workers_wanted(scaler: Autoscaler, *lags: tuple[float, float]) -> list[int]:
    """The number of workers that is wanted at each (time, lag)."""
    return [scaler.look(now, lag) for now, lag in lags]


def test_without_lag_no_worker_is_started() -> None:
    assert workers_wanted(Autoscaler(RULES), (0, 0), (1, 0), (100, 0)) == [0, 0, 0]


def test_the_first_turn_starts_the_first_worker() -> None:
    assert workers_wanted(Autoscaler(RULES), (0, 0), (1, 1)) == [0, 1]


def test_the_number_of_workers_is_lag_by_target_rounded_up() -> None:
    assert workers_wanted(Autoscaler(RULES, replicas=1), (0, 31)) == [4]


def test_one_step_adds_at_most_four_workers_or_as_many_as_there_are() -> None:
    assert workers_wanted(Autoscaler(RULES, replicas=1), (0, 80), (5, 80)) == [5, 8]


def test_workers_never_exceed_the_maximum() -> None:
    assert workers_wanted(Autoscaler(RULES, replicas=6), (0, 1000), (5, 1000)) == [8, 8]


def test_a_lag_within_a_tenth_of_the_target_changes_nothing() -> None:
    assert [recommended(lag, 10, 4) for lag in (36, 40, 43)] == [4, 4, 4]
    assert [recommended(lag, 10, 4) for lag in (35, 45)] == [4, 5]
    assert recommended(29, 10, 4) == 3


def test_workers_are_removed_after_the_stable_time_and_by_halves() -> None:
    scaler = Autoscaler(RULES, replicas=8)
    moments = [(now, 80.0 if not now else 10.0) for now in range(0, 50, 5)]
    assert workers_wanted(scaler, *moments) == [8, 8, 8, 8, 8, 8, 8, 4, 4, 2]


def test_the_last_worker_is_removed_after_the_cooldown() -> None:
    scaler = Autoscaler(RULES, replicas=1)
    assert workers_wanted(scaler, (0, 1), (30, 0), (59, 0), (60, 0)) == [1, 1, 1, 0]


def test_the_rules_are_read_from_the_scaled_object_and_sped_up() -> None:
    manifest = yaml.safe_load((ROOT / "deploy/k8s/base/scaled-object.yaml").read_text("utf-8"))
    rules = Rules.of(manifest["spec"], faster=10)
    assert (rules.target, rules.least, rules.most) == (64, 0, 10)
    assert (rules.polling, rules.cooldown, rules.stable, rules.sync) == pytest.approx((0.5, 30, 12, 1.5))
