"""In which order passwords are checked, and whose checks are refused."""

import asyncio
import base64
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
from argon2 import PasswordHasher
from tests.waiting import eventually, soon

from pallas_contracts.errors import Unavailable
from pallas_credentials import accounts
from pallas_credentials.accounts import Account, Accounts, Admission

HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("right")


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


class Checks:
    """Checks of passwords that end one by one: `order` has the passwords in the order in which they began."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self._may_end = threading.Semaphore(0)

    def verify(self, _hash: str, password: str) -> bool:
        """Check one, when it may end."""
        self.order.append(password)
        assert self._may_end.acquire(timeout=60)
        return password == "right"

    def end(self, count: int) -> None:
        """Let so many checks end."""
        self._may_end.release(count)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checks]:
    """Checks that the test ends."""
    checks = Checks()
    monkeypatch.setattr(accounts, "_verify", checks.verify)
    yield checks
    checks.end(10_000)


type Ask = Callable[[str, str], Awaitable["asyncio.Task[bool]"]]


@pytest.fixture
async def admission() -> Admission:
    """An admission of which no check has begun."""
    return Admission()


@pytest.fixture
async def ask(admission: Admission, checks: Checks) -> Ask:
    """Have a password checked: `await ask(password, address)`. The first check has begun when it returns."""

    async def asked(password: str, address: str) -> "asyncio.Task[bool]":
        task = asyncio.create_task(admission.verify(HASH, password, address))
        await eventually(lambda: bool(checks.order))
        await asyncio.sleep(0)
        return task

    return asked


async def test_an_address_without_earlier_checks_goes_before_the_others(ask: Ask, checks: Checks) -> None:
    strangers = [await ask(f"{number} of {address}", address) for number in range(3) for address in "abc"]
    newcomer = await ask("right", "d")
    checks.end(10)
    assert await soon(newcomer)
    assert not any(await soon(asyncio.gather(*strangers)))
    firsts, later = checks.order[:4], checks.order[4:]
    assert firsts == ["0 of a", "0 of b", "0 of c", "right"]
    assert later == [f"{number} of {address}" for number in (1, 2) for address in "abc"]


async def test_an_address_that_keeps_trying_waits_behind_new_addresses(ask: Ask, checks: Checks) -> None:
    waiting = [await ask("a0", "a"), await ask("a1", "a")]
    checks.end(1)
    await eventually(lambda: len(checks.order) == 2)
    waiting += [await ask(password, password[0]) for password in ("a2", "b0", "b1")]
    checks.end(10)
    await soon(asyncio.gather(*waiting))
    assert checks.order == ["a0", "a1", "b0", "b1", "a2"]


async def test_each_address_has_its_own_limit_of_waiting_checks(
    ask: Ask, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "WAITING_OF_ADDRESS", 2)
    strangers = [await ask(f"guess {number}", "2001:db8::1") for number in range(3)]
    same_network = await ask("guess", "2001:db8::2")
    others = [await ask("right", address) for address in ("2001:db8:0:1::1", "::ffff:10.0.0.1", "10.0.0.2")]
    with pytest.raises(Unavailable):
        await soon(same_network)
    checks.end(10)
    assert await soon(asyncio.gather(*others)) == [True] * 3
    assert await soon(asyncio.gather(*strangers)) == [False] * 3


async def test_when_too_many_checks_wait_the_address_with_most_checks_is_refused(
    ask: Ask, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "WAITING", 3)
    strangers = [await ask(f"guess {number}", "a") for number in range(4)]
    newcomer = await ask("right", "b")
    with pytest.raises(Unavailable):
        await soon(strangers.pop())
    checks.end(10)
    assert await soon(newcomer)
    assert not any(await soon(asyncio.gather(*strangers)))


async def test_a_check_that_waits_too_long_is_refused(
    ask: Ask, checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "WAIT_SECONDS", 0.05)
    running, waiting = await ask("right", "a"), await ask("right", "b")
    with pytest.raises(Unavailable):
        await soon(waiting)
    checks.end(10)
    assert await soon(running)


async def test_an_address_whose_password_was_right_before_goes_before_strangers(
    checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "REMEMBERED_SECONDS", 0.0)
    account = Account("admin", HASH)
    checks.end(1)
    assert await soon(account.lets_in(basic("admin", "right"), "a"))
    guesses = [asyncio.create_task(account.lets_in(basic("admin", f"{n}"), f"{n}")) for n in range(3)]
    await eventually(lambda: len(checks.order) == 2)
    again = asyncio.create_task(account.lets_in(basic("admin", "right"), "a"))
    await asyncio.sleep(0)
    checks.end(10)
    assert await soon(again)
    assert not any(await soon(asyncio.gather(*guesses)))
    assert checks.order == ["right", "0", "right", "1", "2"]


async def test_accounts_take_turns_and_one_check_runs_at_a_time(checks: Checks) -> None:
    both = Accounts({"service": HASH, "admin": HASH, "closed": None})
    guesses = [asyncio.create_task(both.who(basic("service", f"{n}"), f"{n}")) for n in range(9)]
    await eventually(lambda: len(checks.order) == 1)
    admin = asyncio.create_task(both.who(basic("admin", "right"), "a"))
    await asyncio.sleep(0)
    assert len(checks.order) == 1
    checks.end(20)
    assert await soon(admin) == "admin"
    assert checks.order.index("right") <= 2
    assert await soon(asyncio.gather(*guesses)) == [None] * 9
    assert await soon(both.who(basic("closed", "right"), "a")) is None


class Clock:
    """The time, as the module sees it."""

    now = 1000.0

    def monotonic(self) -> float:
        """The time in seconds."""
        return self.now


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses in front of checks, which take no time but that of the clock."""
    clock, slept = Clock(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(accounts, "time", clock)
    monkeypatch.setattr("pallas_credentials.accounts.asyncio.sleep", sleep)
    return slept


async def test_an_address_that_guesses_pauses_longer_and_longer_and_the_right_password_still_counts(
    pauses: list[float],
) -> None:
    admission = Admission(slows_guesses=True)
    for number in range(5):
        assert not await admission.verify(HASH, f"wrong {number}", "a")
    assert not pauses
    for number in range(5):
        assert not await admission.verify(HASH, f"more {number}", "a")
    assert await admission.verify(HASH, "right", "a")
    assert pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert await admission.verify(HASH, "right", "a")
    assert len(pauses) == 6, "the right password forgives the wrong ones"


async def test_other_addresses_do_not_pause(pauses: list[float]) -> None:
    admission = Admission(slows_guesses=True)
    for number in range(6):
        assert not await admission.verify(HASH, f"wrong {number}", "2001:db8::1")
    assert await admission.verify(HASH, "right", "2001:db8:0:1::1")
    assert len(pauses) == 1


async def test_a_known_password_is_checked_again_for_an_address_that_guesses_fast(
    checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "SUSPICIOUS", 1)
    account = Account("admin", HASH, Admission(slows_guesses=True))
    checks.end(1)
    assert await soon(account.lets_in(basic("admin", "right"), "b"))
    guesses = [asyncio.create_task(account.lets_in(basic("admin", f"{n}"), "a")) for n in range(10)]
    with pytest.raises(Unavailable, match="too many failed logins"):
        await soon(asyncio.gather(*guesses))
    with pytest.raises(Unavailable):
        await account.lets_in(basic("admin", "right"), "a")
    assert await account.lets_in(basic("admin", "right"), "b")
    for guess in guesses:
        guess.cancel()
    checks.end(len(guesses))  # the thread of the check that runs ends, too


async def test_a_password_that_is_no_text_is_wrong() -> None:
    assert not await Account("admin", HASH, Admission()).has("admin", "right\ud800", "a")
