"""How often logins may fail."""

import pytest

from workspaces.access import attempts as module
from workspaces.access.attempts import ADDRESSES, MOST_FAILURES, WINDOW_SECONDS, Attempts, TooManyLogins

HERE = "192.0.2.1"


class Clock:
    """The time, as the module sees it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """The time in seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def fail(attempts: Attempts, address: str = HERE, times: int = MOST_FAILURES) -> None:
    """Log in with wrong passwords."""
    for number in range(times):
        with attempts.attempt(address, f"wrong {number}") as attempt:
            attempt.right = False


def is_refused(attempts: Attempts, address: str = HERE, secret: str = "right") -> bool:
    """Whether a login is not even checked."""
    try:
        with attempts.attempt(address, secret):
            return False
    except TooManyLogins:
        return True


def test_an_address_that_failed_five_times_waits_until_a_minute_after_the_first(clock: Clock) -> None:
    attempts = Attempts()
    for _ in range(MOST_FAILURES):
        assert not is_refused(attempts)
        fail(attempts, times=1)
        clock.now += 1
    with pytest.raises(TooManyLogins) as refused, attempts.attempt(HERE, "right"):
        pass
    assert refused.value.retry_after == WINDOW_SECONDS - MOST_FAILURES
    clock.now += refused.value.retry_after
    assert not is_refused(attempts)
    fail(attempts, times=1)
    assert is_refused(attempts)


def test_other_addresses_are_not_refused(clock: Clock) -> None:
    attempts = Attempts()
    fail(attempts)
    assert not is_refused(attempts, "192.0.2.2")


def test_a_network_of_ipv6_is_one_address(clock: Clock) -> None:
    attempts = Attempts()
    fail(attempts, "2001:db8::1")
    assert is_refused(attempts, "2001:db8::ffff")
    assert not is_refused(attempts, "2001:db8:0:1::1")


def test_a_right_password_forgives_the_wrong_ones(clock: Clock) -> None:
    attempts = Attempts()
    fail(attempts, times=MOST_FAILURES - 1)
    with attempts.attempt(HERE, "right") as attempt:
        attempt.right = True
    fail(attempts, times=MOST_FAILURES - 1)
    assert not is_refused(attempts)


def test_what_could_not_be_checked_is_not_counted(clock: Clock) -> None:
    attempts = Attempts()
    for _ in range(2 * MOST_FAILURES):
        with pytest.raises(OSError, match="away"), attempts.attempt(HERE, "right"):
            raise OSError("away")
    assert not is_refused(attempts)


def test_different_passwords_that_are_being_checked_count_the_same_one_does_not(clock: Clock) -> None:
    attempts = Attempts()
    checking = [attempts.attempt(HERE, f"guess {number}") for number in range(MOST_FAILURES)]
    for one in checking:
        one.__enter__()
    assert is_refused(attempts, secret="another")
    assert not is_refused(attempts, secret="guess 0")
    checking.pop().__exit__(None, None, None)
    assert not is_refused(attempts, secret="another")


def test_addresses_are_forgotten_when_there_are_too_many(clock: Clock) -> None:
    attempts = Attempts()
    for number in range(ADDRESSES + 1):
        fail(attempts, f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}")
    assert not is_refused(attempts, "10.0.0.0")
    assert is_refused(attempts, "10.0.0.1")
