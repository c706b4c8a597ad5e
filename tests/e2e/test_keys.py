"""A caller that lost its gateway sends its call again with the same idempotency key, and has lost nothing."""

import signal
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
from tests.e2e import wire
from tests.e2e.lab import Lab
from tests.e2e.turns import Turns
from tests.waiting import soon

from pallas_contracts.turns import CancelRequested, Claimed, ToolStarted

SLOW = '/tool long_task {"seconds": 3, "steps": 20}\n/say finished'


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """A plain HTTP client."""
    async with httpx.AsyncClient(timeout=30) as client:
        yield client


def the_call() -> tuple[dict[str, Any], dict[str, str]]:
    """The same call with the same key, every time."""
    meta = {"progressToken": "t", "pallas/idempotency-key": "a gateway dies"}
    return wire.modern("tools/call", {"name": "maker", "arguments": {"message": SLOW}, "_meta": meta})


async def test_a_turn_whose_gateway_is_killed_is_joined_at_another_one_and_is_executed_once(
    lab: Lab, turns: Turns, http: httpx.AsyncClient
) -> None:
    pid, before = lab.stack.ready()["pids"]["agent-gateway"][0], lab.toolbox.logged("long_task started")
    async with wire.posted(http, lab.url("maker", replica=0), the_call()) as stream:
        async for message in stream.messages():
            if "step 1 of 20" in message["params"]["message"]:
                break
        with lab.replaced("agent-gateway", pid, signal.SIGKILL):
            *told, last = await soon(wire.answers(http, lab.url("maker", replica=1), the_call()), 30)
    messages = [each["params"]["message"] for each in told]
    assert messages.index("toolbox/long_task: started") < messages.index("toolbox/long_task: completed")
    assert any("step 20 of 20" in message for message in messages)
    assert last["result"]["content"][0]["text"].endswith("finished")
    *_, again = await soon(wire.answers(http, lab.url("maker", replica=0), the_call()))
    assert again == last
    assert lab.toolbox.logged("long_task started") == before + 1
    address, _ = await turns.claimed("maker")
    story = await turns.story(address)
    assert len([said for said in story if isinstance(said, Claimed)]) == 1
    assert len([said for said in story if isinstance(said, ToolStarted)]) == 1
    assert not [said for said in story if isinstance(said, CancelRequested)]
