"""Percentiles, and the figures of a cell over several rounds."""

import math

import pytest
from tests.bench.figures import Cell, paired_ratio, percentile


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile(list(range(1, 101)), share) == value


def test_the_percentile_of_no_values_is_nan() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_cell_takes_the_median_rate_and_shares_the_cpu_among_all_its_turns() -> None:
    cell = Cell()
    for seconds in (1.0, 2.0, 4.0):
        run = {"latencies": [0.001, 0.003], "seconds": seconds, "wrong": 0, "faults": []}
        cell.add(run, {"gateway": 0.006, "worker": 0.002})
    summary = cell.summary()
    assert summary["per_second"] == 1.0
    assert summary["p50_ms"] == pytest.approx(1.0)
    assert summary["cpu_ms"] == pytest.approx({"gateway": 3.0, "worker": 1.0})
    assert summary["cpu_ms_total"] == pytest.approx(4.0)


def test_a_cell_without_right_answers_has_no_cpu_figures() -> None:
    cell = Cell()
    cell.add({"latencies": [], "seconds": 1.0, "wrong": 3, "faults": ["status 503"]}, {"gateway": 0.1})
    summary = cell.summary()
    assert (summary["turns"], summary["wrong"], summary["cpu_ms"]) == (0, 3, {})


def test_a_ratio_is_taken_round_by_round_so_that_a_disturbed_round_does_not_decide() -> None:
    assert paired_ratio([90.0, 9.0, 80.0], [100.0, 10.0, 400.0]) == pytest.approx(0.9)
