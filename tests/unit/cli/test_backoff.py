"""The pause before a process is started again."""

from pallas_cli.processes.supervisor import FIRST_PAUSE, pause_after


def pauses(*uptimes: float) -> list[float]:
    """The pauses behind processes that were ready for so long."""
    pause, found = FIRST_PAUSE, list[float]()
    for uptime in uptimes:
        now, pause = pause_after(uptime, pause)
        found.append(now)
    return found


def test_the_pause_doubles_up_to_five_seconds() -> None:
    assert pauses(*[0.0] * 7) == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_process_that_was_ready_for_long_is_restarted_at_once() -> None:
    assert pauses(1.0, 1.0, 1.0, 5.0, 1.0) == [0.2, 0.4, 0.8, 0.0, 0.2]
