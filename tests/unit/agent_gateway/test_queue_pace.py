"""When it is worth to try again: an estimate with bounds, from what is read of a queue anyway."""

import pytest

from pallas_calls.admission.queue_pace import QueuePace


def pace_of(*readings: tuple[float, int], now: float) -> QueuePace:
    """A pace after readings at times (seconds) of how many turns were ever delivered."""
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
        "one reading says nothing",
        "nothing has moved",
        "two turns a second",
        "several have to leave",
        "at least",
        "at most",
        "a consumer that is new",
        "too long ago",
    ],
)
def test_the_time_is_estimated_from_how_fast_the_queue_moves(
    readings: list[tuple[float, int]], turns: float, milliseconds: int
) -> None:
    pace = pace_of(*readings, now=readings[-1][0] if readings else 0.0)
    assert pace.retry_after_ms(turns) == milliseconds


def test_a_queue_that_has_come_to_a_halt_is_not_expected_to_go_on_at_once() -> None:
    pace = pace_of((0, 0), (1, 100), (6, 100), now=6)
    assert pace.retry_after_ms(1) == 5000
