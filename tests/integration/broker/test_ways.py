"""Replays, sub-agents, cancels and resumes on a broker with rights for each service: nothing is denied."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.e2e import wire
from tests.integration.agent_gateway.streams import Received, counting
from tests.integration.broker.guarded import ALPHA, Guarded, start, worker
from tests.integration.real_parts import Front, a_gateway, a_worker, until
from tests.waiting import soon

from pallas_bus.connection import Bus, connect
from pallas_contracts.catalog import CLI, GATEWAY
from pallas_turns.history.turns import TurnHistory, read_turns

PALLAS = str(Path(sys.executable).with_name("pallas"))
KEY = "pallas/idempotency-key"
MODELS = """
  chief: {model: offline, depends_on: [helper]}
  helper: {model: offline}
"""


def edited(text: str) -> str:
    """The lab's team with two agents that have a model, one of which calls the other."""
    return text + MODELS


@dataclass
class Platform:
    """Two gateways and a worker of one team, each with its own user, and an operator's view of the log."""

    guarded: Guarded
    first: Front
    second: Front
    people: Bus
    http: httpx.AsyncClient
    folder: Path

    def url(self, front: Front | None = None) -> str:
        """The bench, at the first gateway or another."""
        return (front or self.first).url(ALPHA, "bench")

    async def turns(self) -> list[TurnHistory]:
        """All turns with their states, in the order in which they were made."""
        return sorted(await read_turns(self.people), key=lambda turn: turn.turn_id)

    async def until_ended(self, state: str) -> None:
        """Wait until the newest turn is in the state `state`."""

        async def look() -> bool:
            turns = await self.turns()
            return bool(turns) and turns[-1].outcome is not None

        await until(look)
        assert (await self.turns())[-1].state == state


@pytest.fixture
def guarded(tmp_path: Path) -> Generator[Guarded]:
    """For each test a broker that accepts messages of 1 MB."""
    guarded = start(tmp_path, edit=edited, max_payload="1MB")
    yield guarded
    guarded.server.close()


@pytest.fixture
async def platform(guarded: Guarded, tmp_path: Path) -> AsyncGenerator[Platform]:
    """All running services. Fails at the end if the broker has denied anything."""
    url, gateway = guarded.server.url, guarded.seed(GATEWAY)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        first, second = [
            await enter(a_gateway(url, nats_seed=gateway, log_key="one key for both gateways of a test"))
            for _ in range(2)
        ]
        await enter(a_worker(url, guarded.teams[ALPHA], nats_seed=guarded.seed(worker(ALPHA))))
        people = await enter(connect(guarded.access(CLI), CLI))
        http = await enter(httpx.AsyncClient(timeout=30, trust_env=False))
        platform = Platform(guarded, first, second, people, http, tmp_path)
        for front in (first, second):
            await until(lambda front=front: served(platform, front))
        yield platform
    assert guarded.violations == []


async def served(platform: Platform, front: Front) -> bool:
    """Whether a gateway has the bench."""
    return (await platform.http.put(platform.url(front))).status_code == 405


def waiting(platform: Platform, **meta: str) -> wire.Message:
    """The params of a call that waits for ever."""
    return {
        "name": "wait",
        "arguments": {"file": str(platform.folder / "never")},
        "_meta": {"progressToken": "t", **meta},
    }


async def test_a_turn_is_replayed(platform: Platform) -> None:
    async with platform.first.client(ALPHA, "bench") as client:
        assert not (await client.call_tool("say", {"text": "hello"})).is_error
    [turn] = await platform.turns()
    command = (PALLAS, "turns", "replay", turn.turn_id, "--nats", platform.guarded.server.url, "--yes")
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PALLAS_NATS_SEED": platform.guarded.seed(CLI)}, stdout=PIPE, stderr=PIPE
    )
    output, errors = await soon(process.communicate(), 30)
    assert process.returncode == 0, errors.decode()
    assert b"hello (attempt 1)" in output
    assert [turn.state for turn in await platform.turns()] == ["completed"] * 2


async def test_an_agent_calls_a_sub_agent(platform: Platform) -> None:
    message = f"/tool helper {json.dumps({'message': '/say from below'})}"
    async with platform.first.client(ALPHA, "chief") as client:
        [block] = (await soon(client.call_tool("chief", {"message": message}), 30)).content
    assert block.type == "text"
    assert "from below" in block.text


async def test_a_modern_call_is_cancelled_by_disconnecting(platform: Platform) -> None:
    async with wire.posted(platform.http, platform.url(), wire.modern("tools/call", waiting(platform))) as stream:
        await anext(stream.messages())
    await platform.until_ended("cancelled")


async def test_a_turn_is_cancelled_by_its_notification_at_another_gateway(platform: Platform) -> None:
    session = await wire.shake_hands(platform.http, platform.url())
    async with wire.posted(
        platform.http, platform.url(), wire.legacy("tools/call", waiting(platform), session)
    ) as stream:
        messages = stream.messages()
        await anext(messages)
        body, headers = wire.legacy("notifications/cancelled", {"requestId": 1}, session, request_id=None)
        assert (await platform.http.post(platform.url(platform.second), json=body, headers=headers)).status_code == 202
        assert [message async for message in messages][-1]["result"]["isError"]
    await platform.until_ended("cancelled")


async def test_a_turn_with_a_key_is_joined_at_another_gateway_and_cancelled_by_its_key(platform: Platform) -> None:
    params = waiting(platform, **{KEY: "k"})
    async with wire.posted(platform.http, platform.url(), wire.modern("tools/call", params)) as stream:
        messages = stream.messages()
        await anext(messages)
        async with wire.posted(
            platform.http, platform.url(platform.second), wire.modern("tools/call", params)
        ) as joined:
            await anext(joined.messages())
    cancel = wire.modern("tools/call", {"name": "wait", "_meta": {KEY: "k", "pallas/cancel": True}})
    await wire.answers(platform.http, platform.url(platform.second), cancel)
    await platform.until_ended("cancelled")


async def test_a_broken_stream_is_resumed_at_another_gateway(platform: Platform) -> None:
    received, file = Received(), platform.folder / "go-on"
    async with counting(platform.http, platform.url(), file) as stream:
        await received.until(stream, 3)
    file.touch()
    await received.resume(platform.http, platform.url(platform.second))
    received.assert_complete()


async def test_a_turn_larger_than_a_message_is_executed_and_answered_in_full(platform: Platform) -> None:
    text = "x" * 3_000_000
    async with platform.first.client(ALPHA, "bench") as client:
        [block] = (await soon(client.call_tool("say", {"text": text}), 30)).content
    assert block.type == "text"
    assert block.text == f"{text} (attempt 1)"
    await platform.until_ended("completed")
