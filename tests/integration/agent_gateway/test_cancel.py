"""Cancelling a turn: a modern caller does so by disconnecting; a handshake-era caller and a draining gateway do not."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from tests.builders import turn_requested
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import Front, until
from tests.waiting import eventually, soon

from agent_gateway.handshake.sessions import cancel_call, remember_call
from agent_gateway.mcp.request import request_token, session_token
from pallas_bus import kv
from pallas_contracts.catalog import CALLS
from pallas_contracts.turns import CancelRequested, Claimed, Principal, TurnAsked
from pallas_turns.cancel import withdraw_turn
from pallas_turns.claims import TurnRef
from pallas_turns.queue import ensure_consumer, queue_state, submit


@pytest.fixture
async def front(platform: Platform) -> Front:
    """A gateway with a worker."""
    await platform.worker()
    front = await platform.gateway()
    await platform.served(front)
    return front


def waiting(platform: Platform) -> dict[str, Any]:
    """The params of a call that waits."""
    return {"name": "wait", "arguments": {"file": str(platform.file())}, "_meta": {"progressToken": "t"}}


@pytest.mark.usefixtures("queued_late")
async def test_closing_the_stream_of_a_modern_call_cancels_its_turn(
    platform: Platform, front: Front, http: httpx.AsyncClient
) -> None:
    request = wire.modern("tools/call", waiting(platform))
    async with wire.posted(http, front.url(platform.team, "bench"), request) as stream:
        await anext(stream.messages())
    cancel = (await platform.claim(CancelRequested)).claim
    assert isinstance(cancel, CancelRequested)
    assert cancel.reason == "the caller closed the stream"
    assert cancel.asked is not None
    assert (cancel.asked.tool, cancel.asked.principal) == ("wait", Principal(id="127.0.0.1"))
    assert (await platform.outcome(await platform.claim(Claimed))).status == "cancelled"


async def test_closing_the_stream_of_a_handshake_era_call_leaves_the_turn_running(
    platform: Platform, front: Front, http: httpx.AsyncClient
) -> None:
    url, params = front.url(platform.team, "bench"), waiting(platform)
    session = await wire.shake_hands(http, url)
    async with wire.posted(http, url, wire.legacy("tools/call", params, session)) as stream:
        await anext(stream.messages())
    await eventually(lambda: front.counted("pallas_turns_in_flight") == 0)
    platform.files[0].touch()
    claimed = await platform.claim(Claimed)
    assert (await platform.outcome(claimed)).status == "completed"
    assert not [each for each in platform.claims.items if isinstance(each.claim, CancelRequested)]


@pytest.mark.parametrize("slash", ["/", "\\/"], ids=["plain", "escaped"])
@pytest.mark.parametrize(("request_id", "reason"), [(7, "x" * 100_000), ("seven", "")], ids=["long", "short"])
async def test_a_handshake_era_call_is_cancelled_by_its_notification_at_another_replica(
    platform: Platform, front: Front, http: httpx.AsyncClient, request_id: str | int, reason: str, slash: str
) -> None:
    other = await platform.gateway()
    await platform.served(other)
    url = front.url(platform.team, "bench")
    session = await wire.shake_hands(http, url)
    call = wire.legacy("tools/call", waiting(platform), session, request_id=request_id)
    calling = asyncio.create_task(wire.answers(http, url, call))
    claimed = await platform.claim(Claimed)
    params = {"requestId": request_id, "reason": reason}
    body, headers = wire.legacy("notifications/cancelled", params, session, request_id=None)
    content = json.dumps(body).replace("/", slash).encode()
    headers["content-type"] = "application/json"
    answer = await http.post(other.url(platform.team, "bench"), content=content, headers=headers)
    assert answer.status_code == 202
    assert (await platform.outcome(claimed)).status == "cancelled"
    result = (await calling)[-1]["result"]
    assert result["_meta"]["pallas/error"]["code"] == "cancelled"


@pytest.mark.parametrize(
    ("stranger", "request_id"), [(True, 1), (False, 2)], ids=["another session", "another request"]
)
async def test_a_cancel_from_another_session_or_of_another_request_does_nothing(
    platform: Platform, front: Front, http: httpx.AsyncClient, stranger: bool, request_id: int
) -> None:
    url, params = front.url(platform.team, "bench"), waiting(platform)
    session = await wire.shake_hands(http, url)
    calling = asyncio.create_task(wire.answers(http, url, wire.legacy("tools/call", params, session, request_id=1)))
    claimed = await platform.claim(Claimed)
    theirs = await wire.shake_hands(http, url) if stranger else session
    body, headers = wire.legacy("notifications/cancelled", {"requestId": request_id}, theirs, request_id=None)
    await http.post(url, json=body, headers=headers)
    platform.files[0].touch()
    assert not (await calling)[-1]["result"]["isError"]
    assert (await platform.outcome(claimed)).status == "completed"


async def test_every_handshake_gets_its_own_session_and_a_modern_call_gets_none(
    platform: Platform, front: Front, http: httpx.AsyncClient
) -> None:
    url = front.url(platform.team, "bench")
    assert await wire.shake_hands(http, url) != await wire.shake_hands(http, url)
    body, headers = wire.modern("tools/list", {})
    assert "mcp-session-id" not in (await http.post(url, json=body, headers=headers)).headers


async def test_a_draining_gateway_cancels_no_turn(platform: Platform, front: Front, http: httpx.AsyncClient) -> None:
    request = wire.modern("tools/call", waiting(platform))
    async with wire.posted(http, front.url(platform.team, "bench"), request) as stream:
        await anext(stream.messages())
        await front.gateway.drain()
    await eventually(lambda: front.counted("pallas_turns_in_flight") == 0)
    platform.files[0].touch()
    assert (await platform.outcome(await platform.claim(Claimed))).status == "completed"
    assert not [each for each in platform.claims.items if isinstance(each.claim, CancelRequested)]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_waiting_turn_that_is_cancelled_leaves_its_queue_and_ends_without_a_worker(
    platform: Platform, http: httpx.AsyncClient, era: str
) -> None:
    await platform.publish()
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    front = await platform.gateway()
    await platform.served(front)
    url, params = front.url(platform.team, "bench"), waiting(platform)

    async def queued(number: int) -> bool:
        return (await queue_state(platform.bus, platform.team, "bench")).waiting == number

    if era == "modern":
        calling = asyncio.create_task(wire.answers(http, url, wire.modern("tools/call", params)))
        await until(lambda: queued(1))
        calling.cancel()
    else:
        session = await wire.shake_hands(http, url)
        calling = asyncio.create_task(wire.answers(http, url, wire.legacy("tools/call", params, session, request_id=7)))
        await until(lambda: queued(1))
        body, headers = wire.legacy("notifications/cancelled", {"requestId": 7}, session, request_id=None)
        assert (await http.post(url, json=body, headers=headers)).status_code == 202
        result = (await soon(calling))[-1]["result"]
        assert result["_meta"]["pallas/error"]["code"] == "cancelled"
    outcome = await platform.outcome(await platform.claim(CancelRequested))
    assert (outcome.status, outcome.attempt, outcome.events) == ("cancelled", 1, 0)
    await until(lambda: queued(0))
    assert front.counted("pallas_turns_total", team=platform.team, agent="bench", outcome="cancelled") == 1


async def test_a_turn_that_was_claimed_is_not_withdrawn_from_the_queue(platform: Platform, front: Front) -> None:
    request = turn_requested(platform.team, "bench", tool="wait", arguments={"file": str(platform.file())})
    stored = await submit(platform.bus, request)
    claimed = await platform.claim(Claimed)
    await withdraw_turn(platform.bus, request, stored.seq)
    assert (await queue_state(platform.bus, platform.team, "bench")).running == 1
    platform.files[0].touch()
    assert (await platform.outcome(claimed)).status == "completed"


async def test_only_a_handshake_era_call_that_runs_is_stored_for_its_cancel(
    platform: Platform, front: Front, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    url = front.url(platform.team, "bench")
    session = await wire.shake_hands(http, url)
    ids = {"session": session_token(session, Principal(id="127.0.0.1", type="peer")), "request": request_token(1)}
    call = wire.legacy("tools/call", waiting(platform), session, request_id=1)
    calling = asyncio.create_task(wire.answers(http, url, call))
    await platform.claim(Claimed)
    assert await kv.get(platform.bus, CALLS, **ids) is not None
    platform.files[0].touch()
    assert not (await calling)[-1]["result"]["isError"]

    async def forgotten() -> bool:
        return await kv.get(platform.bus, CALLS, **ids) is None

    await until(forgotten)
    body, headers = wire.legacy("notifications/cancelled", {"requestId": 1}, session, request_id=None)
    assert (await http.post(url, json=body, headers=headers)).status_code == 202
    assert "a cancel names no call that runs" in caplog.text


async def test_a_cancel_that_arrives_before_its_call_cancels_it(platform: Platform, front: Front) -> None:
    request = turn_requested(platform.team, "bench")
    ref = TurnRef.of(request)
    cancelling = asyncio.create_task(cancel_call(platform.bus, "session", ref.turn_id))
    await asyncio.sleep(0)
    # Asked later on the same connection: once this is answered, the gateway has looked once.
    assert await kv.get(platform.bus, CALLS, session="session", request=ref.turn_id) is None
    await remember_call(platform.bus, "session", ref.turn_id, request)
    await soon(cancelling)
    stored = await platform.claim(CancelRequested)
    assert isinstance(stored.claim, CancelRequested)
    assert (stored.turn_id, stored.claim.asked) == (ref.turn_id, TurnAsked.of(request))
