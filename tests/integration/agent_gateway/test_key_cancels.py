"""A call with an idempotency key is cancelled at once by its key, from wherever its caller says so."""

import asyncio
from typing import Any

import httpx
import pytest
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.test_keys import (
    KEY,
    calling,
    effects,
    fault,
    joined,
    keyed,
    leave,
    result,
    two_gateways,
    waiting,
)
from tests.integration.real_parts import Front, until
from tests.waiting import eventually, soon

from pallas_contracts.turns import CancelRequested, Claimed
from pallas_turns.queue import ensure_consumer


@pytest.fixture
async def fronts(platform: Platform) -> tuple[Front, Front]:
    """Two gateways with a worker, whose turns wait half a minute for callers that have left."""
    await platform.worker()
    return await two_gateways(platform)


def cancelling(tool: str) -> dict[str, Any]:
    """The params of a cancel: those of the call, without its arguments."""
    return {"name": tool, "_meta": {KEY: "a key", "pallas/cancel": True}}


async def cancel_reason(platform: Platform) -> str:
    """The reason of the turn's cancel."""
    cancel = (await platform.claim(CancelRequested)).claim
    assert isinstance(cancel, CancelRequested)
    return cancel.reason


@pytest.mark.parametrize("follows", [True, False], ids=["followed", "left"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_running_turn_is_cancelled_at_another_gateway(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient, follows: bool, era: str
) -> None:
    params, url = keyed("wait", {"file": str(platform.file())}), fronts[1].url(platform.team, "bench")
    first = calling(http, fronts[0], platform, params) if follows else None
    await platform.claim(Claimed) if follows else await leave(http, fronts[0], platform, params)
    if era == "modern":
        told = await result(http, fronts[1], platform, cancelling("wait"))
    else:
        session = await wire.shake_hands(http, url)
        request = wire.legacy("tools/call", cancelling("wait"), session)
        told = (await soon(wire.answers(http, url, request)))[-1]["result"]
    assert fault(told)["code"] == "cancelled"
    assert await cancel_reason(platform) == "cancelled by the caller"
    assert (await platform.outcome(await platform.claim(CancelRequested))).status == "cancelled"
    await eventually(platform.files[0].with_suffix(".stopped").exists)
    assert first is None or fault(await first)["code"] == "cancelled"
    again = await result(http, fronts[1], platform, params)
    assert fault(again)["code"] == "cancelled"
    assert fault(again)["turn_id"] == fault(told)["turn_id"]


async def test_a_waiting_turn_leaves_its_queue_although_nobody_follows_it(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    await platform.publish()
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    fronts = await two_gateways(platform)
    call = calling(http, fronts[0], platform, keyed("wait", {}))
    await until(lambda: waiting(platform, 1))
    call.cancel()
    assert fault(await result(http, fronts[1], platform, cancelling("wait")))["code"] == "cancelled"
    assert (await platform.outcome(await platform.claim(CancelRequested))).status == "cancelled"
    await until(lambda: waiting(platform, 0))


async def test_a_cancel_that_overtakes_its_call_holds(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    assert fault(await result(http, fronts[1], platform, cancelling("effect")))["code"] == "cancelled"
    refused = await result(http, fronts[0], platform, keyed("effect", {"file": str(platform.file())}))
    assert fault(refused)["code"] == "cancelled"
    assert effects(platform) == 0


async def test_a_turn_that_is_over_answers_its_cancel(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    first = await result(http, fronts[0], platform, keyed("say", {"text": "done"}))
    assert await result(http, fronts[1], platform, cancelling("say")) == first
    assert not [claimed for claimed in platform.claims.items if isinstance(claimed.claim, CancelRequested)]


async def test_another_caller_cannot_cancel(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    first = calling(http, fronts[0], platform, keyed("wait", {"file": str(platform.file())}))
    claimed = await platform.claim(Claimed)
    elsewhere = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(timeout=20, trust_env=False, transport=elsewhere) as other:
        told = await result(other, fronts[0], platform, cancelling("wait"))
    assert fault(told)["turn_id"] != claimed.turn_id
    platform.files[0].touch()
    assert not (await first)["isError"]


async def test_a_cancel_needs_a_key_and_a_tool(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    refused = await result(http, fronts[0], platform, {"name": "wait", "_meta": {"pallas/cancel": True}})
    assert fault(refused)["code"] == "invalid_arguments"
    assert KEY in refused["content"][0]["text"]
    url = fronts[0].url(platform.team, "bench")
    body, headers = wire.modern("tools/call", cancelling("missing"))
    unknown = await http.post(url, json=body, headers=headers)
    assert "missing" in unknown.json()["error"]["message"]


async def test_only_true_is_an_order_to_cancel(
    platform: Platform, fronts: tuple[Front, Front], http: httpx.AsyncClient
) -> None:
    params = keyed("effect", {"file": str(platform.file())})
    first = calling(http, fronts[0], platform, params)
    await eventually(lambda: effects(platform) == 1)
    for value in (False, 1, "true", None):
        repeated = {**params, "_meta": {**params["_meta"], "pallas/cancel": value}}
        calling(http, fronts[1], platform, repeated)
    await eventually(lambda: joined(*fronts, platform=platform) == 4)
    platform.files[0].touch()
    assert not (await asyncio.wait_for(first, 10))["isError"]
