"""Turns page by page, on a real log: none is missing and none is on two pages, however they ended."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.turns import writer_of_the_cancel

from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.catalog import GATEWAY, TURN_LOG, TURN_QUEUE
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Principal, TurnRequested
from pallas_turns.claims import TurnRef, claim, request_cancel
from pallas_turns.history.turn_list import TurnFilter
from pallas_turns.history.turn_page import find_page
from pallas_turns.queue import submit
from pallas_turns.write import TurnWriter


@dataclass
class Log:
    """A log of its own."""

    bus: Bus

    async def asked(self, caller: str = "10.0.0.1", team: str = "red") -> TurnRequested:
        """A turn in its queue."""
        request = turn_requested(team).model_copy(update={"principal": Principal(id=caller)})
        await submit(self.bus, request)
        return request

    async def claimed(self, request: TurnRequested, attempt: int = 1, after: int = 0) -> TurnWriter:
        """The turn, claimed."""
        claimed = Claimed(
            attempt=attempt,
            worker=f"w{attempt}",
            tool=request.tool,
            principal=request.principal,
            requested_at=request.requested_at,
            at=utc_now(),
        )
        fence = await claim(self.bus, TurnRef.of(request), claimed, after=after)
        return TurnWriter(self.bus, TurnRef.of(request), attempt, fence)

    async def over(self, request: TurnRequested, writer: TurnWriter | None = None) -> str:
        """The turn, ended and out of its queue. Returns its id."""
        writer = writer or await self.claimed(request)
        await writer.conclude(turn_outcome(request, attempt=writer.attempt))
        where = f"pallas.v1.turn.requested.{request.team}.{request.agent}.*.{request.turn_id}"
        await self.bus.api(f"STREAM.PURGE.{TURN_QUEUE.name}", {"filter": where})
        return request.turn_id

    async def pages(self, wanted: TurnFilter, limit: int, seconds: float = 60) -> list[list[str]]:
        """The ids on all pages."""
        found: list[list[str]] = []
        while True:
            page = await find_page(self.bus, wanted, limit=limit, seconds=seconds)
            found.append([turn.turn_id for turn in page.turns])
            if page.next is None:
                return found
            wanted = replace(wanted, until=page.next)


@pytest.fixture
async def log(nats_server: NatsServer, bus: Connecting) -> Log:
    gateway = await bus(GATEWAY, url=nats_server.url)
    await declare(gateway, TURN_LOG, TURN_QUEUE)
    return Log(gateway)


async def test_the_pages_have_each_turn_once_and_the_latest_first(log: Log) -> None:
    ended = [await log.over(await log.asked(f"c{number}")) for number in range(12)]
    waits = (await log.asked("waits")).turn_id
    running = await log.asked("runs")
    await log.claimed(running)
    wanted = [running.turn_id, waits, *reversed(ended)]
    for limit in (1, 3, 5, 14, 50):
        pages = await log.pages(TurnFilter(), limit)
        assert [turn for page in pages for turn in page] == wanted, limit
        assert all(len(page) == limit for page in pages[:-1])
    assert await log.pages(TurnFilter(state="completed"), 5) == [ended[:-6:-1], ended[6:1:-1], ended[1::-1]]
    assert await log.pages(TurnFilter(state="running"), 5) == [[running.turn_id]]
    assert await log.pages(TurnFilter(team="blue"), 5) == [[]]


async def test_a_turn_that_waited_for_long_is_not_lost_between_two_pages(log: Log) -> None:
    first = await log.asked("patient")
    quick = [await log.over(await log.asked(f"c{number}")) for number in range(4)]
    late = await log.over(first)
    last = await log.over(await log.asked("last"))
    assert await log.pages(TurnFilter(), 2) == [[last, late], quick[:1:-1], quick[1::-1]]


async def test_the_turns_of_a_caller_are_paged_by_their_last_claim(log: Log) -> None:
    mine: list[str] = []
    for number in range(6):
        request = await log.asked("10.0.0.7")
        first = await log.claimed(request)
        await log.over(await log.asked(f"other-{number}"))
        second = await log.claimed(request, 2, first.fence)
        mine.append(await log.over(request, second))
    for limit in (1, 2, 4, 6):
        pages = await log.pages(TurnFilter(caller="peer:10.0.0.7"), limit)
        assert [turn for page in pages for turn in page] == mine[::-1], limit


async def test_a_turn_that_was_cancelled_while_it_waited_is_on_a_page(log: Log) -> None:
    request = await log.asked()
    writer = await log.claimed(request)
    await request_cancel(log.bus, writer.ref, "enough")
    last = await writer_of_the_cancel(writer)
    await last.conclude(turn_outcome(request, status="cancelled", code="cancelled"))
    [[found]] = await log.pages(TurnFilter(state="cancelled"), 5)
    assert found == request.turn_id


async def test_the_pages_keep_to_a_time_span(log: Log) -> None:
    before = await log.over(await log.asked())
    begin = utc_now()
    inside = [await log.over(await log.asked()) for _ in range(3)]
    end = utc_now()
    after = await log.over(await log.asked())
    assert await log.pages(TurnFilter(since=begin, until=end), 2) == [inside[:0:-1], inside[:1]]
    assert await log.pages(TurnFilter(until=begin), 2) == [[before]]
    assert await log.pages(TurnFilter(since=end), 2) == [[after]]


async def test_pages_are_read_while_turns_are_made_and_end(log: Log) -> None:
    known = [await log.over(await log.asked()) for _ in range(10)]
    going = True

    async def go_on() -> None:
        while going:
            await log.over(await log.asked("busy"))

    making = asyncio.create_task(go_on())
    first = await find_page(log.bus, TurnFilter(), limit=1)
    pages = await log.pages(TurnFilter(until=first.next), 3)
    going = False
    await making
    found = [turn.turn_id for turn in first.turns] + [turn for page in pages for turn in page]
    assert len(found) == len(set(found))
    assert [turn for turn in found if turn in known] == known[::-1]


@pytest.mark.parametrize("wanted", [TurnFilter(), TurnFilter(caller="c7"), TurnFilter(team="red")])
async def test_without_time_the_pages_are_smaller_but_have_the_same_turns(
    log: Log, monkeypatch: pytest.MonkeyPatch, wanted: TurnFilter
) -> None:
    monkeypatch.setattr("pallas_turns.history.turn_page._POSITIONS", 1)
    monkeypatch.setattr("pallas_turns.history.spending.LARGEST", 6)
    waits = (await log.asked("not-c7-itself")).turn_id
    ended = [await log.over(await log.asked(f"c{number % 10}")) for number in range(1, 20)]
    matching = [turn for number, turn in enumerate(ended, 1) if wanted.caller is None or number % 10 == 7]
    pages = await log.pages(wanted, 5, seconds=-1)
    assert [turn for page in pages for turn in page] == [*matching[::-1], waits]
    assert len(pages) > len(await log.pages(wanted, 5))
