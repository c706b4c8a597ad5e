"""A broken stream of the handshake era is resumed at any replica, after the last event received."""

import asyncio

import httpx
import pytest
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.streams import KEY, Received, counting
from tests.integration.real_parts import Front
from tests.waiting import eventually, soon

from pallas_contracts.catalog import TURN_CONTENT, TURN_LOG
from pallas_contracts.contract import Template
from pallas_contracts.turns import Claimed


@pytest.fixture
async def fronts(platform: Platform) -> tuple[Front, Front]:
    """Two replicas with a worker; the broker sends the second one its own turns only."""
    await platform.worker()
    pair = await platform.gateway(log_key=KEY), await platform.gateway(log_key=KEY, live_turns="own")
    for front in pair:
        await platform.served(front)
    return pair


async def uninterrupted_call(platform: Platform, front: Front, http: httpx.AsyncClient) -> Received:
    """A call with one unbroken stream."""
    received, file = Received(), platform.file()
    file.touch()
    async with counting(http, front.url(platform.team, "bench"), file) as stream:
        await soon(received.rest(stream))
    return received


async def forget(platform: Platform, template: Template | None = None) -> None:
    """Delete the log messages of the team's turns; without a template all of them."""
    subject = template.filter(team=platform.team) if template else f"pallas.v1.turn.*.{platform.team}.>"
    await platform.bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": subject})


@pytest.mark.usefixtures("queued_late")
async def test_every_event_of_a_turn_has_an_id_and_the_first_has_no_message(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    received = await uninterrupted_call(platform, fronts[0], http)
    received.assert_complete()
    assert (received.events[0].message, received.events[0].retry) == (None, 1000)
    assert all(event.id for event in received.events)


@pytest.mark.parametrize("number", [0, 1, 10], ids=["before anything", "at the first event", "in the middle"])
async def test_a_dropped_stream_is_resumed_at_another_replica_without_gaps_or_duplicates(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient, number: int
) -> None:
    here, there = (front.url(platform.team, "bench") for front in fronts)
    received, file = Received(), platform.file()
    async with counting(http, here, file) as stream:
        if number:
            await soon(received.until(stream, number))
        else:
            received.events.append(await anext(stream.events()))
    resuming = asyncio.create_task(received.resume(http, there))
    await eventually(lambda: fronts[1].counted("pallas_turns_in_flight") == 1)
    file.touch()
    await soon(resuming)
    received.assert_complete()
    assert fronts[1].counted("pallas_streams_resumed_total", team=platform.team, agent="bench") == 1
    assert not platform.cancels


@pytest.mark.usefixtures("queued_late")
async def test_an_ended_turn_can_be_resumed_after_any_of_its_events(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    first = await uninterrupted_call(platform, fronts[0], http)
    url = fronts[1].url(platform.team, "bench")
    for place in range(len(first.events) - 1):
        again = Received()
        await again.resume(http, url, first.ids[place])
        assert again.events == first.events[place + 1 :]


async def test_a_resume_after_the_answer_gets_the_answer_again(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    first, again = await uninterrupted_call(platform, fronts[0], http), Received()
    await again.resume(http, fronts[1].url(platform.team, "bench"), first.ids[-1])
    assert again.messages == first.messages[-1:]


async def test_two_concurrent_resumes_of_a_stream_both_get_all_the_rest(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, file = fronts[0].url(platform.team, "bench"), platform.file()
    one = Received()
    async with counting(http, url, file) as stream:
        await soon(one.until(stream, 10))
        other = Received(list(one.events))
        both = [asyncio.create_task(each.resume(http, url)) for each in (one, other)]
        await eventually(lambda: fronts[0].counted("pallas_turns_in_flight") == 3)
    file.touch()
    await soon(asyncio.gather(*both))
    one.assert_complete()
    other.assert_complete()


async def test_a_stream_can_be_resumed_many_times(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    urls = [front.url(platform.team, "bench") for front in fronts]
    received, file = Received(), platform.file()
    async with counting(http, urls[0], file) as stream:
        await soon(received.until(stream, 3))
    for number in (5, 7, 10):
        async with wire.resumed(http, urls[number % 2], received.ids[-1]) as stream:
            await soon(received.until(stream, number))
    file.touch()
    await received.resume(http, urls[1])
    received.assert_complete()


async def test_a_resumed_stream_of_a_waiting_turn_gets_its_queue_position_and_answer(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    await platform.worker()
    fronts = await platform.gateway(log_key=KEY), await platform.gateway(log_key=KEY)
    for front in fronts:
        await platform.served(front, "once")
    here, there = (front.url(platform.team, "once") for front in fronts)
    first, second, gate = Received(), Received(), platform.file()
    open_gate = platform.file()
    open_gate.touch()
    async with counting(http, here, gate) as holding:
        await soon(first.until(holding, 10))
        async with counting(http, here, open_gate) as stream:
            second.events.append(await anext(stream.events()))
        resuming = asyncio.create_task(second.resume(http, there))
        await eventually(lambda: "once queued: 0 ahead" in progress_messages(second))
        gate.touch()
        await soon(first.rest(holding))
        await soon(resuming)
    first.assert_complete()
    second.assert_complete()


def progress_messages(received: Received) -> list[str | None]:
    """The messages of progress notifications."""
    return [message["params"].get("message") for message in received.messages if "params" in message]


async def test_a_resumed_stream_keeps_the_log_level_of_its_call(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, file = fronts[0].url(platform.team, "bench"), platform.file()
    session, received = await wire.shake_hands(http, url), Received()
    await wire.answers(http, url, wire.legacy("logging/setLevel", {"level": "error"}, session))
    await eventually(lambda: len(fronts[0].gateway.http.endpoints.platform.sessions.known) > 0)
    params = {"name": "count", "arguments": {"file": str(file)}}
    async with wire.posted(http, url, wire.legacy("tools/call", params, session, request_id=7)) as stream:
        received.events.append(await anext(stream.events()))
    file.touch()
    await received.resume(http, fronts[1].url(platform.team, "bench"))
    assert (received.numbers, received.logs, received.text) == ([], [], "counted in attempt 1")


async def test_an_older_revision_gets_ids_but_no_event_without_data(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    received, file = Received(), platform.file()
    async with counting(http, fronts[0].url(platform.team, "bench"), file, "2025-06-18") as stream:
        await soon(received.until(stream, 10))
    file.touch()
    await received.resume(http, fronts[1].url(platform.team, "bench"))
    assert all(event.message for event in received.events)
    received.assert_complete()


async def test_requests_without_a_turn_and_modern_calls_get_no_event_ids(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, file = fronts[0].url(platform.team, "bench"), platform.file()
    file.touch()
    session = await wire.shake_hands(http, url)
    meta = {"_meta": {"progressToken": "t"}}
    for request in (
        wire.legacy("tools/list", {}, session),
        wire.legacy("tools/call", {"name": "count", "arguments": {"file": 7}}, session),
        wire.legacy("tools/call", {"name": "nothing"}, session),
        wire.legacy("tools/call", {"name": "get_health"}, session),
        wire.modern("tools/call", {"name": "count", "arguments": {"file": str(file)}, **meta}),
    ):
        async with wire.posted(http, url, request) as stream:
            received = Received([event async for event in stream.events()])
        assert (received.ids, bool(received.messages)) == ([], True)


async def test_resuming_a_turn_with_expired_content_is_a_tool_error(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, first = fronts[1].url(platform.team, "bench"), await uninterrupted_call(platform, fronts[0], http)
    turn = (await platform.claim(Claimed)).turn_id
    for gone in (TURN_CONTENT.template, None):
        await forget(platform, gone)
        again = Received()
        await again.resume(http, url, first.ids[4])
        (answer,) = again.messages
        facts = answer["result"]["_meta"]["pallas/error"]
        assert (facts["code"], facts["turn_id"], answer["result"]["isError"]) == ("content_expired", turn, True)
