"""A turn's log as gateways read it: every event once and in order, whatever was lost on the way."""

import asyncio
import logging
from contextvars import ContextVar
from dataclasses import replace
from itertools import pairwise
from typing import override

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.integration.bus.turns import (
    TOOL,
    attempt_of,
    behind_the_tombstone,
    following,
    in_short,
    result,
    step,
    stored,
    text,
    whole,
)
from tests.link import linked
from tests.requirements import requirement
from tests.waiting import Collected, soon

from pallas_bus.transport.reads import read
from pallas_bus.transport.streams import live_subject
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.feed import MAX_UNREAD
from pallas_bus.turnlog.feeds import GAP_PATIENCE
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CONTENT, TURN_EVENT, TURN_LOG
from pallas_contracts.turns import (
    CancelRequested,
    Claimed,
    TurnEvents,
    TurnOutcome,
)


@requirement("K-kind-1")
async def test_a_feed_says_everything_once_and_in_order(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, worker, request = await turns(), await bus("agent-worker"), turn_requested(team)
    async with following(gateway) as feeds:
        feed = feeds.open(TurnRef.of(request))
        writer = await attempt_of(worker, request)
        for number in range(1, 31):
            writer.emit(step(number))
            writer.emit(text(f"word {number}"))
            if number % 7 == 0:
                await writer.tool_starting(TOOL)
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        said = await whole(feed)
    numbers = [event.seq for event in said if not isinstance(event, Claimed | CancelRequested | TurnOutcome)]
    assert numbers == list(range(1, writer.last_event + 1))
    assert (in_short(said)[0], in_short(said)[-1]) == ("claimed 1", "completed")


async def test_a_feed_goes_on_when_another_of_the_same_turn_is_closed(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway, worker, request = await turns(), await bus("agent-worker"), turn_requested(team)
    async with following(gateway) as feeds:
        first, second = feeds.open(TurnRef.of(request)), feeds.open(TurnRef.of(request))
        feeds.close(second)
        writer = await attempt_of(worker, request)
        writer.emit(result("done"))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert in_short(await whole(first)) == ["claimed 1", "result", "completed"]


async def test_many_turns_at_once_do_not_mix(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, worker = await turns(), await bus("agent-worker")
    requests = [turn_requested(team) for _ in range(20)]
    async with following(gateway) as feeds:
        opened = [feeds.open(TurnRef.of(request)) for request in requests]

        async def play(number: int) -> None:
            writer = await attempt_of(worker, requests[number])
            for word in range(5):
                writer.emit(text(f"{number}.{word}"))
                await asyncio.sleep(0)
            await writer.conclude(turn_outcome(requests[number], events=writer.last_event))

        await asyncio.gather(*(play(number) for number in range(20)))
        for number, feed in enumerate(opened):
            words = [f"{number}.{word}" for word in range(5)]
            assert in_short(await whole(feed)) == ["claimed 1", *words, "completed"]


async def test_two_feeds_of_one_turn_hear_the_same(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        pair = [feeds.open(TurnRef.of(request)) for _ in range(2)]
        writer = await attempt_of(gateway, request)
        writer.emit(step(1))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert await whole(pair[0]) == await whole(pair[1])


async def test_what_the_live_stream_lost_is_read_from_the_log(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    writer.emit(step(1))
    await writer.tool_starting(TOOL)
    async with following(gateway) as feeds:
        feed = feeds.open(writer.ref)
        writer.emit(step(2))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        said = await whole(feed)
    assert [word for word in in_short(said) if word != "claimed 1"] == ["step 1", "tool_started", "step 2", "completed"]


async def test_a_turn_that_is_over_can_be_read_from_its_beginning(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    writer.emit(step(1))
    writer.emit(result("hello"))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(writer.ref))
        assert in_short(await whole(feed)) == ["claimed 1", "step 1", "result", "completed"]


async def test_a_turn_that_is_under_way_can_be_joined_and_goes_on_live(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    await writer.tool_starting(TOOL)
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(writer.ref))
        writer.emit(step(1))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert in_short(await whole(feed)) == ["claimed 1", "tool_started", "step 1", "completed"]


async def test_a_turn_can_be_joined_behind_a_position(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    await writer.tool_starting(TOOL)
    position = (await stored(gateway, writer.ref))[-1].seq
    writer.emit(step(1))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(writer.ref, after=position))
        assert in_short(await whole(feed)) == ["step 1", "completed"]


@pytest.mark.parametrize("event", range(4))
async def test_a_turn_can_be_joined_behind_an_event_and_its_answer_is_always_told(
    turns: Declaring, team: str, event: int
) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    writer.emit(step(1))
    writer.emit(step(2))
    writer.emit(result("hello"))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(writer.ref, behind=Cursor(1, event)))
        steps = ["step 1", "step 2"][event:]
        assert in_short(await whole(feed)) == ["claimed 1", *steps, "result", "completed"]
        assert feed.cursor == Cursor(1, 3)


@pytest.mark.parametrize(
    ("behind", "steps"),
    [
        (Cursor(1, 1), ["step 2", "result", "tool_started", "claimed 2", "step 10", "step 11"]),
        (Cursor(2, 1), ["claimed 2", "step 11"]),
    ],
)
async def test_of_a_newer_attempt_everything_is_told_and_of_an_older_one_nothing(
    turns: Declaring, team: str, behind: Cursor, steps: list[str]
) -> None:
    gateway, request = await turns(), turn_requested(team)
    first = await attempt_of(gateway, request)
    first.emit(step(1))
    first.emit(step(2))
    first.emit(result("void"))
    await first.tool_starting(TOOL)
    second = await attempt_of(gateway, request, 2, after=first.fence)
    second.emit(step(10))
    second.emit(step(11))
    await second.conclude(turn_outcome(request, attempt=2, events=second.last_event))
    async with following(gateway) as feeds:
        said = in_short(await whole(await soon(feeds.resume(first.ref, behind=behind))))
    assert said == ["claimed 1", *steps, "completed"]


async def test_a_reader_that_comes_late_is_not_one_that_is_slow(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    for number in range(MAX_UNREAD + 200):
        writer.emit(step(number))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    async with following(gateway) as feeds:
        assert len(await whole(await soon(feeds.resume(writer.ref)))) == MAX_UNREAD + 202


async def test_what_a_replica_does_not_have_yet_is_waited_for(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    async with following(gateway) as feeds:
        feed = await feeds.resume(writer.ref)
        assert in_short([await soon(anext(feed))]) == ["claimed 1"]
        early = TurnEvents(
            turn_id=request.turn_id,
            team=team,
            agent=request.agent,
            attempt=1,
            events=(step(2).model_copy(update={"seq": 2}),),
        )
        live = live_subject(writer.ref.on(TURN_EVENT.template))
        not_read_yet = {"Nats-Sequence": str(writer.fence + 1)}
        await gateway.send(live, early.model_dump_json().encode(), not_read_yet)
        with pytest.raises(TimeoutError):
            await soon(anext(feed), within=5 * GAP_PATIENCE)
        writer.emit(step(1))
        writer.emit(step(2))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert in_short(await whole(feed)) == ["step 1", "step 2", "completed"]


async def test_a_finished_turn_whose_content_has_expired_still_ends(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    for number in range(1, 4):
        writer.emit(text(f"word {number}"))
        writer.emit(step(number))
        await writer.tool_starting(TOOL)
    writer.emit(result("hello"))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    content = writer.ref.on(TURN_CONTENT.template)
    await gateway.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": content})
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(writer.ref))
        said = in_short(await whole(feed))
    steps = [word for number in range(1, 4) for word in (f"step {number}", "tool_started")]
    assert said == ["claimed 1", *steps, "completed"]


async def test_a_feed_goes_on_when_several_pieces_are_missing_for_good(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    async with following(gateway) as feeds:
        feed = feeds.open(writer.ref)
        for _ in range(1, 4):
            writer._seq += 1  # pyright: ignore[reportPrivateUsage] - an event that never reached the broker
            await writer.tool_starting(TOOL)
        writer._seq += 1  # pyright: ignore[reportPrivateUsage] - and a last one
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        said = await whole(feed)
    assert [word for word in in_short(said) if word != "claimed 1"] == ["tool_started"] * 3 + ["completed"]


async def test_a_later_attempt_makes_the_earlier_one_void(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        feed = feeds.open(TurnRef.of(request))
        first = await attempt_of(gateway, request)
        first.emit(step(1))
        first.emit(step(2))
        await first.tool_starting(TOOL)
        second = await attempt_of(gateway, request, 2, after=first.fence)
        first.emit(step(99))
        second.emit(step(10))
        await second.conclude(turn_outcome(request, attempt=2, events=second.last_event))
        said = in_short(await whole(feed))
    assert said == ["claimed 1", "step 1", "step 2", "tool_started", "claimed 2", "step 10", "completed"]


async def test_a_cancel_ends_a_turn_that_is_at_a_later_attempt_than_its_outcome(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    first = await attempt_of(gateway, request)
    second = await attempt_of(gateway, request, 2, after=first.fence)
    await request_cancel(gateway, second.ref, "now")
    last = replace(await behind_the_tombstone(second), attempt=1)
    await last.conclude(turn_outcome(request, status="cancelled", code="cancelled"))
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(first.ref))
        assert in_short(await whole(feed)) == ["claimed 1", "claimed 2", "cancelled: now", "cancelled"]


async def test_a_cancel_is_said_once_and_the_outcome_follows(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        feed = feeds.open(TurnRef.of(request))
        writer = await attempt_of(gateway, request)
        await request_cancel(gateway, writer.ref, "now")
        await feeds.reread()
        last = await behind_the_tombstone(writer)
        await last.conclude(turn_outcome(request, status="cancelled", code="cancelled"))
        assert in_short(await whole(feed)) == ["claimed 1", "cancelled: now", "cancelled"]


@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "SIGKILL"])
async def test_a_gateway_that_was_cut_off_says_what_it_missed(
    nats_server: NatsServer, turns: Declaring, bus: Connecting, team: str, kill: bool
) -> None:
    worker, request = await turns(nats_server.url), turn_requested(team)
    async with linked(nats_server.url) as link:
        gateway = await bus("agent-gateway", url=link.url)
        async with following(gateway) as feeds:
            feed = feeds.open(TurnRef.of(request))
            writer = await attempt_of(worker, request)
            writer.emit(step(1))
            await writer.tool_starting(TOOL)
            await link.cut()
            back = asyncio.Event()

            async def note() -> None:
                back.set()

            worker.on_reconnect(note)
            nats_server.restart(kill=kill)
            await soon(back.wait())
            writer.emit(step(2))
            await writer.conclude(turn_outcome(request, events=writer.last_event))
            await link.mend()
            assert in_short(await whole(feed)) == ["claimed 1", "step 1", "tool_started", "step 2", "completed"]


async def test_a_feed_that_is_closed_hears_no_more(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        closed, other = feeds.open(TurnRef.of(request)), feeds.open(TurnRef.of(request))
        feeds.close(closed)
        writer = await attempt_of(gateway, request)
        await writer.conclude(turn_outcome(request))
        await whole(other)
        assert (closed.attempt, closed.ended) == (0, False)


async def test_an_unreadable_message_does_not_end_a_feed(
    turns: Declaring, team: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        writer = await attempt_of(gateway, request)
        await gateway.put(writer.ref.on(TURN_CONTENT.template), b"{not json")
        feed = await soon(feeds.resume(writer.ref))
        await gateway.put(writer.ref.on(TURN_CONTENT.template), b"{not json")
        await writer.conclude(turn_outcome(request))
        assert in_short(await whole(feed)) == ["claimed 1", "completed"]
    assert "unreadable turn message" in caplog.text


async def test_what_is_logged_of_a_feed_is_logged_in_the_context_of_who_opened_it(
    turns: Declaring, team: str, caplog: pytest.LogCaptureFixture
) -> None:
    about, heard = ContextVar("about", default="nothing"), Collected[str]()

    class Listening(logging.Filter):
        @override
        def filter(self, record: logging.LogRecord) -> bool:
            heard.add(about.get())
            return True

    gateway, request = await turns(), turn_requested(team)
    with caplog.filtering(Listening()):
        async with following(gateway) as feeds:
            writer = await attempt_of(gateway, request)
            token = about.set("the turn")
            feed = feeds.open(writer.ref)
            about.reset(token)
            await gateway.put(writer.ref.on(TURN_CONTENT.template), b"{not json")
            await heard.count(1)
            await feeds.reread()
            feeds.close(feed)
    assert heard.items == ["the turn"] * 2


async def test_the_log_of_a_turn_is_read_in_pieces_as_in_one(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    for _ in range(7):
        await writer.tool_starting(TOOL)
    records = [record async for record in read(gateway, TURN_LOG.name, writer.ref.everything, batch=3)]
    assert records == await stored(gateway, writer.ref)
    assert all(one.seq < two.seq for one, two in pairwise(records))
    assert len(records) == 8
