"""A stream of the handshake era that broke: it goes on at any replica behind the event that came last."""

import asyncio

import httpx
import pytest
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.streams import KEY, Heard, counting
from tests.integration.real_parts import Front
from tests.waiting import eventually, soon

from pallas_contracts.catalog import TURN_CONTENT, TURN_LOG
from pallas_contracts.contract import Template
from pallas_contracts.turns import CancelRequested, Claimed


@pytest.fixture
async def fronts(platform: Platform) -> tuple[Front, Front]:
    """Two replicas with a worker behind them."""
    await platform.worker()
    pair = await platform.gateway(log_key=KEY), await platform.gateway(log_key=KEY)
    for front in pair:
        await platform.served(front)
    return pair


async def whole(platform: Platform, front: Front, http: httpx.AsyncClient) -> Heard:
    """A call that nothing happened to."""
    heard, file = Heard(), platform.file()
    file.touch()
    async with counting(http, front.url(platform.team, "bench"), file) as stream:
        await soon(heard.rest(stream))
    return heard


async def forget(platform: Platform, template: Template | None = None) -> None:
    """Let what was said in the turns of the team expire; without a template everything of them."""
    subject = template.filter(team=platform.team) if template else f"pallas.v1.turn.*.{platform.team}.>"
    await platform.bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": subject})


@pytest.mark.usefixtures("queued_late")
async def test_every_event_of_a_turn_has_an_id_and_the_first_is_nothing_else(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    heard = await whole(platform, fronts[0], http)
    heard.is_whole()
    assert (heard.events[0].message, heard.events[0].retry) == (None, 1000)
    assert all(event.id for event in heard.events)


@pytest.mark.parametrize("number", [0, 1, 10], ids=["before anything", "at the first event", "in the middle"])
async def test_a_dropped_stream_goes_on_at_another_replica_with_nothing_missing_and_nothing_double(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient, number: int
) -> None:
    here, there = (front.url(platform.team, "bench") for front in fronts)
    heard, file = Heard(), platform.file()
    async with counting(http, here, file) as stream:
        if number:
            await soon(heard.until(stream, number))
        else:
            heard.events.append(await anext(stream.events()))
    resuming = asyncio.create_task(heard.resume(http, there))
    await eventually(lambda: fronts[1].counted("pallas_turns_in_flight") == 1)
    file.touch()
    await soon(resuming)
    heard.is_whole()
    assert fronts[1].counted("pallas_streams_resumed_total", team=platform.team, agent="bench") == 1
    assert not [said for said in platform.claims.items if isinstance(said.claim, CancelRequested)]


@pytest.mark.usefixtures("queued_late")
async def test_a_turn_that_has_ended_is_told_from_the_log_behind_any_of_its_events(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    first = await whole(platform, fronts[0], http)
    url = fronts[1].url(platform.team, "bench")
    for place in range(len(first.events) - 1):
        again = Heard()
        await again.resume(http, url, first.ids[place])
        assert again.events == first.events[place + 1 :]


async def test_who_asks_behind_the_answer_is_told_it_again(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    first, again = await whole(platform, fronts[0], http), Heard()
    await again.resume(http, fronts[1].url(platform.team, "bench"), first.ids[-1])
    assert again.messages == first.messages[-1:]


async def test_two_that_take_up_a_stream_at_once_are_both_told_all_the_rest(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, file = fronts[0].url(platform.team, "bench"), platform.file()
    one = Heard()
    async with counting(http, url, file) as stream:
        await soon(one.until(stream, 10))
        other = Heard(list(one.events))
        both = [asyncio.create_task(each.resume(http, url)) for each in (one, other)]
        await eventually(lambda: fronts[0].counted("pallas_turns_in_flight") == 3)
    file.touch()
    await soon(asyncio.gather(*both))
    one.is_whole()
    other.is_whole()


async def test_a_stream_breaks_as_often_as_it_likes(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    urls = [front.url(platform.team, "bench") for front in fronts]
    heard, file = Heard(), platform.file()
    async with counting(http, urls[0], file) as stream:
        await soon(heard.until(stream, 3))
    for number in (5, 7, 10):
        async with wire.resumed(http, urls[number % 2], heard.ids[-1]) as stream:
            await soon(heard.until(stream, number))
    file.touch()
    await heard.resume(http, urls[1])
    heard.is_whole()


async def test_a_turn_that_waits_is_waited_for_and_its_place_told(platform: Platform, http: httpx.AsyncClient) -> None:
    await platform.worker()
    fronts = await platform.gateway(log_key=KEY), await platform.gateway(log_key=KEY)
    for front in fronts:
        await platform.served(front, "once")
    here, there = (front.url(platform.team, "once") for front in fronts)
    first, second, gate = Heard(), Heard(), platform.file()
    open_gate = platform.file()
    open_gate.touch()
    async with counting(http, here, gate) as holding:
        await soon(first.until(holding, 10))
        async with counting(http, here, open_gate) as stream:
            second.events.append(await anext(stream.events()))
        resuming = asyncio.create_task(second.resume(http, there))
        await eventually(lambda: "once queued: 0 ahead" in told(second))
        gate.touch()
        await soon(first.rest(holding))
        await soon(resuming)
    first.is_whole()
    second.is_whole()


def told(heard: Heard) -> list[str | None]:
    """The words of progress."""
    return [said["params"].get("message") for said in heard.messages if "params" in said]


async def test_a_log_level_stays_what_it_was_for_the_call(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, file = fronts[0].url(platform.team, "bench"), platform.file()
    session, heard = await wire.shake_hands(http, url), Heard()
    await wire.answers(http, url, wire.legacy("logging/setLevel", {"level": "error"}, session))
    await eventually(lambda: len(fronts[0].gateway.http.endpoints.platform.sessions.known) > 0)
    params = {"name": "count", "arguments": {"file": str(file)}}
    async with wire.posted(http, url, wire.legacy("tools/call", params, session, request_id=7)) as stream:
        heard.events.append(await anext(stream.events()))
    file.touch()
    await heard.resume(http, fronts[1].url(platform.team, "bench"))
    assert (heard.numbers, heard.logs, heard.text) == ([], [], "counted in attempt 1")


async def test_an_older_revision_has_ids_but_no_event_without_data(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    heard, file = Heard(), platform.file()
    async with counting(http, fronts[0].url(platform.team, "bench"), file, "2025-06-18") as stream:
        await soon(heard.until(stream, 10))
    file.touch()
    await heard.resume(http, fronts[1].url(platform.team, "bench"))
    assert all(event.message for event in heard.events)
    heard.is_whole()


async def test_what_becomes_no_turn_has_no_id_and_neither_has_the_modern_era(
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
            heard = Heard([event async for event in stream.events()])
        assert (heard.ids, bool(heard.messages)) == ([], True)


async def test_content_that_has_expired_is_a_tool_error_that_says_so(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    url, first = fronts[1].url(platform.team, "bench"), await whole(platform, fronts[0], http)
    turn = (await platform.claim(Claimed)).turn_id
    for gone in (TURN_CONTENT.template, None):
        await forget(platform, gone)
        again = Heard()
        await again.resume(http, url, first.ids[4])
        (answer,) = again.messages
        facts = answer["result"]["_meta"]["pallas/error"]
        assert (facts["code"], facts["turn_id"], answer["result"]["isError"]) == ("content_expired", turn, True)
