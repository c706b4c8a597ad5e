"""Single flight: which reads share a command, and what happens to them when it fails."""

import asyncio

import pytest
from tests.waiting import eventually, soon

from pallas_contracts.errors import Unavailable
from pallas_lookups.single_flight import MOST, SingleFlight


class Store:
    """Values that change with each command; `held`, a command is not answered before it is set."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.held: asyncio.Event | None = None
        self.failure: Exception | None = None

    async def __call__(self, names: list[str]) -> list[str | None]:
        self.commands.append(names)
        number = len(self.commands)
        if self.held is not None:
            await self.held.wait()
        if self.failure is not None:
            raise self.failure
        return [f"{name} of {number}" for name in names]


async def test_concurrent_reads_share_one_command_that_names_each_key_once() -> None:
    store = Store()
    reads = SingleFlight(store)
    first, second = await asyncio.gather(reads.read(["a", "b"]), reads.read(["b", "c"]))
    assert store.commands == [["a", "b", "c"]]
    assert (first["a"], second["b"], second["c"]) == ("a of 1", "b of 1", "c of 1")


async def test_a_read_is_never_answered_by_a_command_that_was_sent_before_it_began() -> None:
    store = Store()
    reads, store.held = SingleFlight(store), asyncio.Event()
    early = asyncio.create_task(reads.read(["a"]))
    await eventually(lambda: bool(store.commands))
    late = [asyncio.create_task(reads.read(["a"])) for _ in range(3)]
    await asyncio.sleep(0)
    assert store.commands == [["a"]]
    store.held.set()
    assert (await soon(early))["a"] == "a of 1"
    assert [(await soon(read))["a"] for read in late] == ["a of 2"] * 3
    assert store.commands == [["a"], ["a"]]


@pytest.mark.parametrize("failure", [Unavailable("away", code="no_redis"), ValueError("no record")])
async def test_a_failure_is_raised_by_every_read_of_that_command_and_by_no_other(failure: Exception) -> None:
    store = Store()
    reads, store.failure = SingleFlight(store), failure
    failed = await soon(asyncio.gather(*(reads.read(["a"]) for _ in range(3)), return_exceptions=True))
    assert [type(error) for error in failed] == [type(failure)] * 3
    store.failure = None
    assert (await reads.read(["a"]))["a"] == "a of 2"


async def test_a_cancelled_read_does_not_end_the_reads_beside_it() -> None:
    store = Store()
    reads, store.held = SingleFlight(store), asyncio.Event()
    gone, waiting = (asyncio.create_task(reads.read([name])) for name in "ab")
    await eventually(lambda: bool(store.commands))
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    store.held.set()
    assert (await soon(waiting))["b"] == "b of 1"


async def test_more_reads_than_fit_in_one_command_are_sent_in_several() -> None:
    store = Store()
    reads = SingleFlight(store)
    await asyncio.gather(*(reads.read([str(number)]) for number in range(MOST + 1)))
    assert [len(names) for names in store.commands] == [MOST, 1]
