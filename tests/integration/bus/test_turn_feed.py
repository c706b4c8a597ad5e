"""A turn's log as gateways read it: every event once and in order, whatever messages were lost."""

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
    following,
    read_to_end,
    result,
    step,
    stored,
    summary_of,
    text,
    writer_of_the_cancel,
)
from tests.link import linked
from tests.requirements import requirement
from tests.waiting import Collected, soon

from pallas_bus.reads import read
from pallas_bus.streams import live_subject
from pallas_contracts.catalog import TURN_CONTENT, TURN_EVENT, TURN_LOG
from pallas_contracts.turns import (
    CancelRequested,
    Claimed,
    TurnEvents,
    TurnOutcome,
)
from pallas_turns.claims import Cursor, TurnRef, request_cancel
from pallas_turns.feed import MAX_UNREAD
from pallas_turns.feeds import GAP_SECONDS


@requirement("K-kind-1")
async def test_a_feed_has_every_event_once_and_in_order(turns: Declaring, bus: Connecting, team: str) -> None:
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
        messages = await read_to_end(feed)
    numbers = [event.seq for event in messages if not isinstance(event, Claimed | CancelRequested | TurnOutcome)]
    assert numbers == list(range(1, writer.last_event + 1))
    assert (summary_of(messages)[0], summary_of(messages)[-1]) == ("claimed 1", "completed")


async def test_a_turn_that_is_followed_alone_has_a_subscription_until_its_last_feed_is_closed(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    submitter, worker = await turns(), await bus("agent-worker")
    request, other = turn_requested(team), turn_requested(team)
    async with following(submitter, alone=True) as feeds:
        received = submitter.client.stats["in_msgs"]
        first, second = feeds.open(TurnRef.of(request)), feeds.open(TurnRef.of(request))
        await submitter.client.flush()
        await (await attempt_of(worker, other)).conclude(turn_outcome(other))
        await (await attempt_of(worker, request)).conclude(turn_outcome(request))
        for feed in (first, second):
            assert [summary_of([it]) for it in await read_to_end(feed)] == [["claimed 1"], ["completed"]]
            feeds.close(feed)
        await submitter.client.flush()
        await request_cancel(worker, TurnRef.of(request), "nobody follows it")
        await submitter.client.flush()
    assert submitter.client.stats["in_msgs"] == received + 2


async def test_closing_a_feed_does_not_end_another_of_the_same_turn(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway, worker, request = await turns(), await bus("agent-worker"), turn_requested(team)
    async with following(gateway) as feeds:
        first, second = feeds.open(TurnRef.of(request)), feeds.open(TurnRef.of(request))
        feeds.close(second)
        writer = await attempt_of(worker, request)
        writer.emit(result("done"))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert summary_of(await read_to_end(first)) == ["claimed 1", "result", "completed"]


async def test_feeds_of_concurrent_turns_do_not_mix(turns: Declaring, bus: Connecting, team: str) -> None:
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
            assert summary_of(await read_to_end(feed)) == ["claimed 1", *words, "completed"]


async def test_two_feeds_of_one_turn_get_the_same_events(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        pair = [feeds.open(TurnRef.of(request)) for _ in range(2)]
        writer = await attempt_of(gateway, request)
        writer.emit(step(1))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert await read_to_end(pair[0]) == await read_to_end(pair[1])


async def test_events_lost_on_the_live_subject_are_read_from_the_log(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    writer.emit(step(1))
    await writer.tool_starting(TOOL)
    async with following(gateway) as feeds:
        feed = feeds.open(writer.ref)
        writer.emit(step(2))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        messages = await read_to_end(feed)
    assert [word for word in summary_of(messages) if word != "claimed 1"] == [
        "step 1",
        "tool_started",
        "step 2",
        "completed",
    ]


async def test_an_ended_turn_can_be_read_from_its_beginning(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    writer.emit(step(1))
    writer.emit(result("hello"))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(writer.ref))
        assert summary_of(await read_to_end(feed)) == ["claimed 1", "step 1", "result", "completed"]


async def test_a_running_turn_can_be_joined_and_goes_on_live(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    await writer.tool_starting(TOOL)
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(writer.ref))
        writer.emit(step(1))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert summary_of(await read_to_end(feed)) == ["claimed 1", "tool_started", "step 1", "completed"]


@pytest.mark.parametrize("event", range(4))
async def test_a_turn_can_be_joined_after_any_event_and_its_answer_is_always_included(
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
        assert summary_of(await read_to_end(feed)) == ["claimed 1", *steps, "result", "completed"]
        assert feed.cursor == Cursor(1, 3)


@pytest.mark.parametrize(
    ("behind", "steps"),
    [
        (Cursor(1, 1), ["step 2", "result", "tool_started", "claimed 2", "step 10", "step 11"]),
        (Cursor(2, 1), ["claimed 2", "step 11"]),
    ],
)
async def test_a_feed_joined_at_a_cursor_has_all_of_newer_attempts_and_nothing_of_older_ones(
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
        messages = summary_of(await read_to_end(await soon(feeds.resume(first.ref, behind=behind))))
    assert messages == ["claimed 1", *steps, "completed"]


async def test_a_late_reader_of_a_long_log_is_not_cut_off_as_slow(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    for number in range(MAX_UNREAD + 200):
        writer.emit(step(number))
    await writer.conclude(turn_outcome(request, events=writer.last_event))
    async with following(gateway) as feeds:
        assert len(await read_to_end(await soon(feeds.resume(writer.ref)))) == MAX_UNREAD + 202


async def test_a_feed_waits_for_messages_that_the_replica_of_the_log_does_not_have_yet(
    turns: Declaring, team: str
) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    async with following(gateway) as feeds:
        feed = await feeds.resume(writer.ref)
        assert summary_of([await soon(anext(feed))]) == ["claimed 1"]
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
            await soon(anext(feed), within=5 * GAP_SECONDS)
        writer.emit(step(1))
        writer.emit(step(2))
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        assert summary_of(await read_to_end(feed)) == ["step 1", "step 2", "completed"]


async def test_a_feed_of_an_ended_turn_with_expired_content_still_ends(turns: Declaring, team: str) -> None:
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
        messages = summary_of(await read_to_end(feed))
    steps = [word for number in range(1, 4) for word in (f"step {number}", "tool_started")]
    assert messages == ["claimed 1", *steps, "completed"]


async def test_a_feed_goes_on_when_several_events_are_missing_for_good(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    async with following(gateway) as feeds:
        feed = feeds.open(writer.ref)
        for _ in range(1, 4):
            writer._seq += 1  # pyright: ignore[reportPrivateUsage] - an event that never reached the broker
            await writer.tool_starting(TOOL)
        writer._seq += 1  # pyright: ignore[reportPrivateUsage] - and a last one
        await writer.conclude(turn_outcome(request, events=writer.last_event))
        messages = await read_to_end(feed)
    assert [word for word in summary_of(messages) if word != "claimed 1"] == ["tool_started"] * 3 + ["completed"]


async def test_a_feed_ignores_a_superseded_attempt(turns: Declaring, team: str) -> None:
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
        messages = summary_of(await read_to_end(feed))
    assert messages == ["claimed 1", "step 1", "step 2", "tool_started", "claimed 2", "step 10", "completed"]


async def test_a_cancelled_turn_ends_with_an_outcome_of_an_earlier_attempt(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    first = await attempt_of(gateway, request)
    second = await attempt_of(gateway, request, 2, after=first.fence)
    await request_cancel(gateway, second.ref, "now")
    last = replace(await writer_of_the_cancel(second), attempt=1)
    await last.conclude(turn_outcome(request, status="cancelled", code="cancelled"))
    async with following(gateway) as feeds:
        feed = await soon(feeds.resume(first.ref))
        assert summary_of(await read_to_end(feed)) == ["claimed 1", "claimed 2", "cancelled: now", "cancelled"]


async def test_a_feed_has_a_cancel_once_and_then_the_outcome(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        feed = feeds.open(TurnRef.of(request))
        writer = await attempt_of(gateway, request)
        await request_cancel(gateway, writer.ref, "now")
        await feeds.reread()
        last = await writer_of_the_cancel(writer)
        await last.conclude(turn_outcome(request, status="cancelled", code="cancelled"))
        assert summary_of(await read_to_end(feed)) == ["claimed 1", "cancelled: now", "cancelled"]


@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "SIGKILL"])
async def test_a_feed_has_the_events_that_its_gateway_missed_while_disconnected(
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
            assert summary_of(await read_to_end(feed)) == ["claimed 1", "step 1", "tool_started", "step 2", "completed"]


async def test_a_closed_feed_gets_no_more_events(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    async with following(gateway) as feeds:
        closed, other = feeds.open(TurnRef.of(request)), feeds.open(TurnRef.of(request))
        feeds.close(closed)
        writer = await attempt_of(gateway, request)
        await writer.conclude(turn_outcome(request))
        await read_to_end(other)
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
        assert summary_of(await read_to_end(feed)) == ["claimed 1", "completed"]
    assert "unreadable turn message" in caplog.text


async def test_log_lines_of_a_feed_have_the_context_of_its_opener(
    turns: Declaring, team: str, caplog: pytest.LogCaptureFixture
) -> None:
    about, logged = ContextVar("about", default="nothing"), Collected[str]()

    class Listening(logging.Filter):
        @override
        def filter(self, record: logging.LogRecord) -> bool:
            logged.add(about.get())
            return True

    gateway, request = await turns(), turn_requested(team)
    with caplog.filtering(Listening()):
        async with following(gateway) as feeds:
            writer = await attempt_of(gateway, request)
            token = about.set("the turn")
            feed = feeds.open(writer.ref)
            about.reset(token)
            await gateway.put(writer.ref.on(TURN_CONTENT.template), b"{not json")
            await logged.count(1)
            await feeds.reread()
            feeds.close(feed)
    assert logged.items == ["the turn"] * 2


async def test_a_turns_log_read_in_batches_is_complete(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    writer = await attempt_of(gateway, request)
    for _ in range(7):
        await writer.tool_starting(TOOL)
    records = [record async for record in read(gateway, TURN_LOG.name, writer.ref.everything, batch=3)]
    assert records == await stored(gateway, writer.ref)
    assert all(one.seq < two.seq for one, two in pairwise(records))
    assert len(records) == 8
