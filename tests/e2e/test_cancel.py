"""Cancelling a turn: what cancels it in each era and what does not, and that the cancel reaches the running tool."""

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest
from tests.e2e import wire
from tests.e2e.calls import Line, call
from tests.e2e.lab import Era, Lab
from tests.e2e.turns import Turns
from tests.requirements import requirement
from tests.waiting import Collected, eventually

from pallas_contracts.turns import CancelRequested, ToolStarted

LONG = '/tool long_task {"seconds": 60, "steps": 600}'
TOKEN = {"progressToken": "t"}


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """A plain HTTP client."""
    async with httpx.AsyncClient(timeout=30, verify=False) as client:
        yield client


async def test_a_client_that_disconnects_cancels_the_turn_and_its_tool(lab: Lab, turns: Turns, era: Era) -> None:
    before = lab.toolbox.logged("long_task cancelled")
    lines_received = Collected[Line]()
    async with lab.client("maker", era) as client:
        calling = asyncio.create_task(call(client, "maker", LONG, lines_received.add))
        await lines_received.until(lambda lines: any("step 1 of 600" in (line.message or "") for line in lines))
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        address, _ = await turns.claimed("maker")
        outcome = await turns.outcome(address)
    assert outcome.status == "cancelled"
    await eventually(lambda: lab.toolbox.logged("long_task cancelled") == before + 1)
    assert any(isinstance(message, CancelRequested) for message in await turns.story(address))


async def test_closing_the_stream_of_a_modern_call_cancels_it(lab: Lab, turns: Turns, http: httpx.AsyncClient) -> None:
    params = {"name": "maker", "arguments": {"message": LONG}, "_meta": TOKEN}
    async with wire.posted(http, lab.url("maker"), wire.modern("tools/call", params)) as stream:
        await anext(stream.messages())
    address, _ = await turns.claimed("maker")
    assert (await turns.outcome(address)).status == "cancelled"


async def test_closing_a_modern_call_without_progress_cancels_it(
    lab: Lab, turns: Turns, http: httpx.AsyncClient
) -> None:
    params = {"name": "maker", "arguments": {"message": LONG}}

    async def listen() -> None:
        await wire.answers(http, lab.url("maker"), wire.modern("tools/call", params))

    calling = asyncio.create_task(listen())
    address, _ = await turns.claimed("maker")
    calling.cancel()
    await asyncio.wait({calling})
    assert (await turns.outcome(address)).status == "cancelled"


@requirement("P-5.13")
async def test_closing_the_stream_of_a_handshake_era_call_lets_the_turn_complete(
    lab: Lab, turns: Turns, http: httpx.AsyncClient
) -> None:
    session = await wire.shake_hands(http, lab.url("maker"))
    message = '/tool long_task {"seconds": 1.5, "steps": 3}'
    params = {"name": "maker", "arguments": {"message": message}, "_meta": TOKEN}
    async with wire.posted(http, lab.url("maker"), wire.legacy("tools/call", params, session)) as stream:
        await anext(stream.messages())
    address, _ = await turns.claimed("maker")
    story = await turns.story(address)
    assert (await turns.outcome(address)).status == "completed"
    assert any(isinstance(message, ToolStarted) for message in story)
    assert not any(isinstance(message, CancelRequested) for message in story)


@pytest.mark.parametrize("request_id", [7, "seven"], ids=repr)
async def test_a_handshake_era_call_is_cancelled_by_its_notification_at_any_replica(
    lab: Lab, turns: Turns, http: httpx.AsyncClient, request_id: int | str
) -> None:
    session = await wire.shake_hands(http, lab.url("maker", replica=0))
    params = {"name": "maker", "arguments": {"message": LONG}, "_meta": TOKEN}
    request = wire.legacy("tools/call", params, session, request_id=request_id)
    async with wire.posted(http, lab.url("maker", replica=0), request) as stream:
        messages = stream.messages()
        await anext(messages)
        address, _ = await turns.claimed("maker")
        body, headers = wire.legacy("notifications/cancelled", {"requestId": request_id}, session, request_id=None)
        answer = await http.post(lab.url("maker", replica=1), json=body, headers=headers)
        assert answer.status_code == 202
        assert (await turns.outcome(address)).status == "cancelled"
        last = [message async for message in messages][-1]
    assert last["id"] == request_id
    assert last["result"]["_meta"]["pallas/error"]["code"] == "cancelled"


async def test_a_cancel_from_another_session_changes_nothing(lab: Lab, turns: Turns, http: httpx.AsyncClient) -> None:
    url = lab.url("plain")
    mine, other = await wire.shake_hands(http, url), await wire.shake_hands(http, url)
    params = {"name": "plain", "arguments": {"message": "/sleep 1\n/say undisturbed"}, "_meta": TOKEN}
    async with wire.posted(http, url, wire.legacy("tools/call", params, mine, request_id=5)) as stream:
        messages = stream.messages()
        await anext(messages)
        body, headers = wire.legacy("notifications/cancelled", {"requestId": 5}, other, request_id=None)
        await http.post(url, json=body, headers=headers)
        last = [message async for message in messages][-1]
    assert last["result"]["content"] == [{"type": "text", "text": "undisturbed"}]


async def test_a_waiting_turn_is_cancelled_without_being_executed(
    lab: Lab, turns: Turns, http: httpx.AsyncClient
) -> None:
    url = lab.url("narrow")
    first = {"name": "narrow", "arguments": {"message": "/sleep 60"}}
    running = asyncio.create_task(wire.answers(http, url, wire.modern("tools/call", first)))
    held, _ = await turns.claimed("narrow")
    second = {"name": "narrow", "arguments": {"message": "/say too late"}, "_meta": TOKEN}
    async with wire.posted(http, url, wire.modern("tools/call", second)) as stream:
        queued = await anext(stream.messages())
    assert queued["params"]["message"] == "narrow queued: 0 ahead"
    cancels = await turns.claims.until(lambda claims: any(isinstance(it.claim, CancelRequested) for it in claims))
    address = turns.address_of(next(it for it in cancels if isinstance(it.claim, CancelRequested)))
    assert (await turns.outcome(address)).status == "cancelled"
    assert [type(message).__name__ for message in await turns.story(address)] == ["CancelRequested", "TurnOutcome"]
    assert not running.done()
    running.cancel()
    await asyncio.wait({running})
    assert (await turns.outcome(held)).status == "cancelled"
