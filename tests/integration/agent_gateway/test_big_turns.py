"""Turns that are too big for a message, from the caller to the agent and back."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.agent_gateway.conftest import Platform, make_platform
from tests.integration.real_parts import until
from tests.waiting import soon

from pallas_bus.reads import read
from pallas_contracts.catalog import OBJECT_PART, TURN_OBJECTS, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.turns import Claimed, TurnRequested
from pallas_turns.claims import TurnRef
from pallas_turns.content import drop, objects_of

MiB = 1024 * 1024
IMAGES = [base64.b64encode(bytes([n]) * 370_000).decode() for n in range(20)]
HISTORY = [{"role": "user", "content": f"{n:04} " + "said before " * 85} for n in range(2000)]
TWELVE_MB = json.dumps({"images": IMAGES, "history": HISTORY})


@pytest.fixture(params=["8MB", "1MB"])
async def small(request: pytest.FixtureRequest, bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """A platform on a broker with a small message limit."""
    with NatsServer(max_payload=request.param) as server:
        async for made in make_platform(await bus("agent-gateway", url=server.url), server.url, team, tmp_path):
            yield made


async def objects(platform: Platform, ref: TurnRef | None = None) -> int:
    """The bytes of all offloaded content."""
    every = objects_of(ref) if ref else OBJECT_PART.template.filter()
    return sum([len(record.data) async for record in read(platform.bus, TURN_OBJECTS.name, every)])


async def test_a_turn_of_twelve_megabytes_is_executed_and_answered_in_full(small: Platform) -> None:
    assert 11 * MiB < len(TWELVE_MB) < 13 * MiB
    await small.worker()
    front = await small.gateway()
    await small.served(front)
    async with front.client(small.team, "bench") as client:
        answer = await soon(client.call_tool("say", {"text": TWELVE_MB}), within=60)
        assert not answer.is_error
        [block] = answer.content
        assert block.type == "text"
        assert block.text == f"{TWELVE_MB} (attempt 1)"
    outcome = await small.outcome(await small.claim(Claimed))
    assert outcome.content_until is not None
    assert await objects(small) > 2 * len(TWELVE_MB)


async def test_an_answer_over_the_size_limit_fails_with_its_code(small: Platform) -> None:
    await small.worker()
    front = await small.gateway(max_body_bytes=str(32 * MiB))
    await small.served(front)
    async with front.client(small.team, "bench") as client:
        answer = await soon(client.call_tool("say", {"text": "x" * 17 * MiB}), within=60)
        assert answer.is_error
        assert (answer.meta or {})["pallas/error"]["code"] == "result_too_large"
        assert not (await soon(client.call_tool("say", {"text": "small"}))).is_error


async def test_a_body_above_the_limit_is_413(platform: Platform, http: httpx.AsyncClient) -> None:
    await platform.publish()
    front = await platform.gateway()
    await platform.served(front)
    answer = await http.post(front.url(platform.team, "bench"), content=b"x" * (16 * MiB + 1))
    assert answer.status_code == 413


async def corrupt_part(platform: Platform, ref: TurnRef) -> None:
    """Overwrite one part of offloaded content."""
    ids = {"team": ref.team, "agent": ref.agent, "turn": ref.turn_id}
    await platform.bus.put(OBJECT_PART.template.subject(**ids, name="request", part="0"), b"something else")


@pytest.mark.parametrize("code", ["content_expired", "content_damaged"])
async def test_a_turn_with_missing_or_corrupt_offloaded_arguments_is_not_executed(
    platform: Platform, code: str
) -> None:
    await platform.publish()
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        calling = asyncio.create_task(client.call_tool("wait", {"file": "x" * MiB}))
        request = await waiting(platform)
        assert request.stowed is not None
        if code == "content_expired":
            await drop(platform.bus, TurnRef.of(request))
        else:
            await corrupt_part(platform, TurnRef.of(request))
        await platform.worker()
        answer = await soon(calling)
        assert (answer.meta or {})["pallas/error"]["code"] == code


async def test_a_waiting_turn_that_is_cancelled_leaves_no_offloaded_content(platform: Platform) -> None:
    await platform.publish()
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        calling = asyncio.create_task(client.call_tool("wait", {"file": "x" * MiB}))
        ref = TurnRef.of(await waiting(platform))
        assert await objects(platform, ref) > MiB
        calling.cancel()

        async def gone() -> bool:
            return not await objects(platform, ref)

        await until(gone)


async def waiting(platform: Platform) -> TurnRequested:
    """The turn of the team that waits in its queue."""
    found: list[TurnRequested] = []

    async def look() -> bool:
        queue = TURN_REQUESTED.template.filter(team=platform.team)
        found.extend(
            [TurnRequested.model_validate_json(each.data) async for each in read(platform.bus, TURN_QUEUE.name, queue)]
        )
        return bool(found)

    await until(look)
    return found[0]
