"""The pause before a process is started again."""

from math import inf

from pallas_cli.processes.supervisor import FIRST_PAUSE, pause_after


def pauses(*uptimes: float) -> list[float]:
    """The pauses behind processes that were ready for so long, each as soon as it was started."""
    pause, apart, found = FIRST_PAUSE, inf, list[float]()
    for uptime in uptimes:
        now, pause = pause_after(uptime, apart + uptime, pause)
        found.append(now)
        apart = now
    return found


def test_the_pause_doubles_up_to_five_seconds() -> None:
    assert pauses(*[0.0] * 7) == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_process_that_was_ready_for_long_is_restarted_at_once() -> None:
    assert pauses(3.0) == [0.0], "a worker that is killed is back at once"
    assert pauses(*[30.0] * 7) == [0.0] * 7


def test_a_process_that_gets_ready_and_ends_again_and_again_is_restarted_ever_later() -> None:
    assert pauses(*[1.0] * 8) == [0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert pauses(0.9, 0.9, 1.0, 20.0, 31.0, 0.9) == [0.2, 0.4, 0.8, 1.6, 0.0, 0.2]
