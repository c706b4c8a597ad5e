"""The wait before a restart."""

from pallas_cli.processes.backoff import Backoff


def test_the_wait_doubles_up_to_five_seconds() -> None:
    backoff = Backoff()
    assert [backoff.after(uptime=0.0) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_process_that_was_ready_for_long_is_restarted_at_once() -> None:
    backoff = Backoff()
    for _ in range(4):
        backoff.after(uptime=1.0)
    assert backoff.after(uptime=5.0) == 0.0
    assert backoff.after(uptime=1.0) == 0.2
