"""How many workers the played scaler wants."""

import pytest
import yaml
from tests.contract.tree import ROOT
from tests.sim.autoscaler import Autoscaler, Rules, recommended

RULES = Rules(target=10, least=0, most=8, polling=1, cooldown=60, stable=30, removed=0.5, removed_every=10, sync=5)


def course(scaler: Autoscaler, *lags: tuple[float, float]) -> list[int]:
    """What is wanted at these moments with these lags."""
    return [scaler.look(now, lag) for now, lag in lags]


def test_nothing_is_started_for_nothing() -> None:
    assert course(Autoscaler(RULES), (0, 0), (1, 0), (100, 0)) == [0, 0, 0]


def test_the_first_turn_starts_the_first_worker() -> None:
    assert course(Autoscaler(RULES), (0, 0), (1, 1)) == [0, 1]


def test_as_many_are_wanted_as_the_lag_has_targets_rounded_up() -> None:
    assert course(Autoscaler(RULES, replicas=1), (0, 31)) == [4]


def test_no_more_are_added_at_once_than_there_are_or_four() -> None:
    assert course(Autoscaler(RULES, replicas=1), (0, 80), (5, 80)) == [5, 8]


def test_there_are_never_more_than_the_most() -> None:
    assert course(Autoscaler(RULES, replicas=6), (0, 1000), (5, 1000)) == [8, 8]


def test_a_tenth_more_or_less_changes_nothing() -> None:
    assert [recommended(lag, 10, 4) for lag in (36, 40, 43)] == [4, 4, 4]
    assert [recommended(lag, 10, 4) for lag in (35, 45)] == [4, 5]
    assert recommended(29, 10, 4) == 3


def test_workers_go_only_when_no_more_were_wanted_for_a_while_and_by_halves() -> None:
    scaler = Autoscaler(RULES, replicas=8)
    moments = [(now, 80.0 if not now else 10.0) for now in range(0, 50, 5)]
    assert course(scaler, *moments) == [8, 8, 8, 8, 8, 8, 8, 4, 4, 2]


def test_the_last_worker_goes_when_the_cooldown_is_over() -> None:
    scaler = Autoscaler(RULES, replicas=1)
    assert course(scaler, (0, 1), (30, 0), (59, 0), (60, 0)) == [1, 1, 1, 0]


def test_the_rules_are_those_of_the_scaled_object_at_another_pace() -> None:
    manifest = yaml.safe_load((ROOT / "deploy/k8s/components/demo-team/scaled-object.yaml").read_text("utf-8"))
    rules = Rules.of(manifest["spec"], faster=10)
    assert (rules.target, rules.least, rules.most) == (64, 0, 10)
    assert (rules.polling, rules.cooldown, rules.stable, rules.sync) == pytest.approx((0.5, 30, 12, 1.5))
