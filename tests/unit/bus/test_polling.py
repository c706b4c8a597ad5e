"""Polls and other attempts that fail are repeated until the broker answers, or until a deadline."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.waiting import Collected, soon

from pallas_bus import errors
from pallas_bus.errors import RETRYING, keep_polling, poll_now, retry_while_unavailable
from pallas_contracts.errors import Unavailable


class _Broker:
    """Fails the first polls, each with one of `failures`, and then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.answers = list(failures), Collected[None]()

    async def poll(self) -> None:
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

    instead = SimpleNamespace(**vars(asyncio) | {"sleep": paused})
    for module in (errors, errors):  # only there: others may have tasks in this event loop
        monkeypatch.setattr(module, "asyncio", instead)
    return kept


async def test_a_poll_is_repeated_until_the_broker_answers(pauses: list[float]) -> None:
    broker = _Broker(Unavailable("away"), Unavailable("away"))
    await soon(poll_now(broker.poll))
    assert (len(broker.answers.items), pauses) == (1, [0.5, 0.5])


async def test_polling_goes_on_after_a_poll_that_failed() -> None:
    broker = _Broker(Unavailable("away"))
    task = asyncio.create_task(keep_polling(broker.poll))
    await broker.answers.count(3)
    task.cancel()


async def test_polling_goes_on_after_a_bug_which_is_logged_each_time_with_growing_pauses(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    broker = _Broker(*(KeyError(number) for number in range(8)))
    task = asyncio.create_task(keep_polling(broker.poll, every=1.5))
    await broker.answers.count(2)
    task.cancel()
    assert pauses[:10] == [1.5, 0.5, 1, 2, 4, 8, 16, 30, 30, 1.5]
    assert [record.exc_info is not None for record in caplog.records] == [True] * 8


async def test_retrying_logs_the_first_failure_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    broker = _Broker(Unavailable("away"), Unavailable("away"))
    await soon(retry_while_unavailable(broker.poll, "write", facts={"turn": "t1"}))
    [record] = caplog.records
    assert record.getMessage() == RETRYING
    assert (vars(record)["attempted"], vars(record)["turn"], vars(record)["reason"]) == ("write", "t1", "away")


async def test_retrying_raises_the_first_failure_after_the_deadline(pauses: list[float]) -> None:
    broker = _Broker(Unavailable("away"))
    with pytest.raises(Unavailable, match="away"):
        await soon(retry_while_unavailable(broker.poll, "write", deadline=-1.0))
    assert pauses == []


async def test_retrying_repeats_only_what_failed_because_the_broker_is_unavailable() -> None:
    broker = _Broker(KeyError("bug"))
    with pytest.raises(KeyError):
        await soon(retry_while_unavailable(broker.poll, "write", deadline=None))


@pytest.mark.parametrize("masked_by", [Unavailable("closed"), KeyError("a bug")])
async def test_cancelled_polling_ends_although_the_poll_raises_another_error(masked_by: Exception) -> None:
    begun = asyncio.Event()

    async def poll() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise masked_by

    task = asyncio.create_task(poll_now(poll))
    await begun.wait()
    task.cancel()
    [ended] = await soon(asyncio.gather(task, return_exceptions=True))
    assert ended is masked_by
