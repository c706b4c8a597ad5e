"""The estimate of when to retry: from how fast the queue moves, within bounds."""

import pytest

from pallas_turns.positions import QueuePace


def pace_of(*readings: tuple[float, int], now: float) -> QueuePace:
    """A pace after `readings`, which are (seconds, turns delivered so far)."""
    clock = [0.0]
    pace = QueuePace(lambda: clock[0])
    for at, delivered in readings:
        clock[0] = at
        pace.read(delivered)
    clock[0] = now
    return pace


@pytest.mark.parametrize(
    ("readings", "turns", "milliseconds"),
    [
        ([], 1, 1000),
        ([(0, 5)], 1, 1000),
        ([(0, 5), (1, 5)], 1, 1000),
        ([(0, 5), (1, 7)], 1, 500),
        ([(0, 5), (1, 7)], 4, 2000),
        ([(0, 0), (1, 1000)], 1, 250),
        ([(0, 0), (10, 1)], 10, 30_000),
        ([(0, 7), (1, 5)], 1, 1000),
        ([(0, 5), (40, 7)], 1, 1000),
    ],
    ids=[
        "nothing is known",
        "one reading is not enough",
        "nothing has moved",
        "two turns a second",
        "several turns ahead",
        "lower bound",
        "upper bound",
        "a new consumer",
        "old readings",
    ],
)
def test_the_retry_time_is_estimated_from_how_fast_the_queue_moves(
    readings: list[tuple[float, int]], turns: float, milliseconds: int
) -> None:
    pace = pace_of(*readings, now=readings[-1][0] if readings else 0.0)
    assert pace.retry_after_ms(turns) == milliseconds


def test_a_queue_that_has_stopped_gives_a_longer_retry_time() -> None:
    pace = pace_of((0, 0), (1, 100), (6, 100), now=6)
    assert pace.retry_after_ms(1) == 5000
