"""A caller that lost its gateway repeats its call with the same idempotency key, and gets all events and the answer."""

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
    async with httpx.AsyncClient(timeout=30, verify=False) as client:
        yield client


def the_call() -> tuple[dict[str, Any], dict[str, str]]:
    """A call that is the same every time, with its key."""
    meta = {"progressToken": "t", "pallas/idempotency-key": "a gateway dies"}
    return wire.modern("tools/call", {"name": "maker", "arguments": {"message": SLOW}, "_meta": meta})


async def test_a_call_repeated_at_another_gateway_joins_its_turn_and_is_executed_once(
    lab: Lab, turns: Turns, http: httpx.AsyncClient
) -> None:
    pid, before = lab.stack.ready()["pids"]["agent-gateway"][0], lab.toolbox.logged("long_task started")
    async with wire.posted(http, lab.url("maker", replica=0), the_call()) as stream:
        async for message in stream.messages():
            if "step 1 of 20" in message["params"]["message"]:
                break
        with lab.replaced("agent-gateway", pid, signal.SIGKILL):
            *notifications, last = await soon(wire.answers(http, lab.url("maker", replica=1), the_call()), 30)
    messages = [each["params"]["message"] for each in notifications]
    assert messages.index("toolbox/long_task: started") < messages.index("toolbox/long_task: completed")
    assert any("step 20 of 20" in message for message in messages)
    assert last["result"]["content"][0]["text"].endswith("finished")
    *_, again = await soon(wire.answers(http, lab.url("maker", replica=0), the_call()))
    assert again == last
    assert lab.toolbox.logged("long_task started") == before + 1
    address, _ = await turns.claimed("maker")
    story = await turns.story(address)
    assert len([message for message in story if isinstance(message, Claimed)]) == 1
    assert len([message for message in story if isinstance(message, ToolStarted)]) == 1
    assert not [message for message in story if isinstance(message, CancelRequested)]
