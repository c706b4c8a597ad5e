"""A look that fails is taken again: what was missed is found when the broker answers."""

import asyncio

import pytest
from tests.waiting import Collected, soon

from pallas_bus.transport.polling import keep_polling, poll_now
from pallas_contracts.errors import Unavailable


class _Broker:
    """One that fails at the first looks, each with one of `failures`, and then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.answers = list(failures), Collected[None]()

    async def look(self) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.answers.add(None)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses in order; each takes no time."""
    kept, sleep = list[float](), asyncio.sleep

    async def paused(seconds: float) -> None:
        kept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", paused)
    return kept


async def test_a_look_is_taken_until_the_broker_answers(pauses: list[float]) -> None:
    broker = _Broker(Unavailable("away"), Unavailable("away"))
    await soon(poll_now(broker.look))
    assert (len(broker.answers.items), pauses) == (1, [0.5, 0.5])


async def test_looks_go_on_after_one_that_failed() -> None:
    broker = _Broker(Unavailable("away"))
    polling = asyncio.create_task(keep_polling(broker.look))
    await broker.answers.count(3)
    polling.cancel()


@pytest.mark.parametrize("masked_by", [Unavailable("closed"), KeyError("a bug")])
async def test_looking_ends_when_it_is_cancelled_although_the_look_fails_by_that(masked_by: Exception) -> None:
    begun = asyncio.Event()

    async def look() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise masked_by

    looking = asyncio.create_task(poll_now(look))
    await begun.wait()
    looking.cancel()
    [ended] = await soon(asyncio.gather(looking, return_exceptions=True))
    assert ended is masked_by


async def test_looks_go_on_after_a_bug_which_is_logged_each_time_and_later_each_time(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    broker = _Broker(*(KeyError(number) for number in range(8)))
    polling = asyncio.create_task(keep_polling(broker.look, every=1.5))
    await broker.answers.count(2)
    polling.cancel()
    assert pauses[:10] == [1.5, 0.5, 1, 2, 4, 8, 16, 30, 30, 1.5]
    assert [record.exc_info is not None for record in caplog.records] == [True] * 8
