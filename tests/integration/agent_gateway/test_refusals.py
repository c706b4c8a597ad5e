"""Calls that never become turns are refused early, in bounded time and with a code."""

import asyncio

import pytest
from mcp.shared.exceptions import MCPError
from tests.builders import turn_requested
from tests.embedded import NatsServer
from tests.integration.agent_gateway.conftest import Platform, error_of
from tests.waiting import eventually, soon, within

from agent_gateway.mcp.endpoints import Endpoint
from pallas_contracts.catalog import TURN_QUEUE
from pallas_contracts.turns import Principal
from pallas_turns.queue import submit

ENOUGH_TIME = 8.0

CALLER = Principal(id="127.0.0.1")
"""The principal of a client on this machine without authentication."""


async def test_invalid_arguments_are_a_tool_error_and_make_no_turn(platform: Platform) -> None:
    await platform.publish()
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        result = await client.call_tool("wait", {"file": 7})
        assert error_of(result) == {"code": "invalid_arguments", "retryable": False}
        refused = {"team": platform.team, "agent": "bench", "reason": "invalid_arguments"}
        assert front.counted("pallas_calls_refused_total", **refused) == 1
        result = await client.call_tool("get_health", {"deep": True})
    assert error_of(result) == {"code": "invalid_arguments", "retryable": False}
    assert front.counted("pallas_calls_refused_total", **refused) == 2
    assert front.counted("pallas_turns_in_flight") == 0


async def test_an_unknown_tool_is_a_protocol_error(platform: Platform) -> None:
    await platform.publish()
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        with pytest.raises(MCPError, match="Unknown tool: 'nope'"):
            await client.call_tool("nope", {})


async def test_a_full_queue_is_a_busy_error_with_a_retry_time(alone: Platform) -> None:
    await alone.publish()
    front = await alone.gateway()
    await alone.served(front)
    info = await alone.bus.api(f"STREAM.INFO.{TURN_QUEUE.name}", {})
    await alone.bus.api(f"STREAM.UPDATE.{TURN_QUEUE.name}", info["config"] | {"max_msgs": 1})
    await submit(alone.bus, turn_requested(alone.team, "bench").model_copy(update={"principal": CALLER}))
    async with front.client(alone.team, "bench") as client:
        result = await client.call_tool("wait", {"file": "x"})
    assert error_of(result) == {"code": "busy", "retryable": True, "retry_after_ms": 1000}
    assert front.counted("pallas_calls_refused_total", team=alone.team, agent="bench", reason="store") == 1


async def test_without_the_broker_a_call_is_refused_as_busy_in_bounded_time_and_works_when_it_is_back(
    alone: Platform, nats_server: NatsServer
) -> None:
    await alone.worker()
    front = await alone.gateway()
    await alone.served(front)
    async with front.client(alone.team, "bench") as modern, front.client(alone.team, "bench", "legacy") as legacy:
        for client in (modern, legacy):
            assert not (await client.call_tool("say", {"text": "before"})).is_error
        nats_server.stop()
        async with within(ENOUGH_TIME):
            results = await asyncio.gather(
                *(soon(client.call_tool("say", {"text": "during"})) for client in (modern, legacy))
            )
        for result in results:
            assert error_of(result)["code"] == "busy"
            assert error_of(result)["retry_after_ms"] == 1000
        assert front.process.probes.missing().get("broker") == "not connected"
        nats_server.start()
        await eventually(lambda: not front.process.probes.missing(), 20)
        for client in (modern, legacy):
            assert not (await soon(client.call_tool("say", {"text": "after"}), 20)).is_error


async def test_turns_that_are_claimed_make_room_at_once(platform: Platform) -> None:
    await platform.worker(lambda text: text.replace("title: Bench\n", "title: Bench\n    max_queued: 1\n"))
    front = await platform.gateway()
    await platform.served(front)
    definition = front.gateway.http.endpoints.find(platform.team, "bench")
    assert isinstance(definition, Endpoint)
    assert definition.agent.definition.limits.max_queued == 1
    async with front.client(platform.team, "bench") as client:
        for number in range(20):
            assert not (await client.call_tool("say", {"text": str(number)})).is_error
