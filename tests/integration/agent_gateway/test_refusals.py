"""Calls that never become turns, or find nobody: refused early, in bounded time, with a code."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from nats.aio.msg import Msg
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.agent_gateway.conftest import Platform, make_platform
from tests.waiting import Collected, eventually, soon

from agent_gateway.entry.endpoints import Endpoint
from agent_gateway.handlers import queue_place
from agent_gateway.handlers.queue_place import QueuePlaces
from pallas_bus.turn_queue import consumer_name, ensure_consumer, queue_state, submit
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import GATEWAY, TURN_QUEUE
from pallas_contracts.turns import Principal

ENOUGH_TIME = 8.0

CALLER = Principal(id="127.0.0.1")
"""Who a client on this machine is, as long as nobody asks for a credential."""

SLOW_MACHINE = 4
"""By how much a machine that is busy with other tests may be late."""


@pytest.fixture
async def alone(nats_server: NatsServer, bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """A platform on a broker of the test's own."""
    connection = await bus(GATEWAY, url=nats_server.url)
    async for made in make_platform(connection, nats_server.url, team, tmp_path):
        yield made


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The facts of a tool error."""
    assert result.is_error
    return (result.meta or {})["pallas/error"]


async def test_arguments_that_do_not_fit_are_a_tool_error_and_no_turn(platform: Platform) -> None:
    await platform.publish()
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        result = await client.call_tool("wait", {"file": 7})
    assert error_of(result) == {"code": "invalid_arguments", "retryable": False}
    assert front.counted("pallas_turns_in_flight") == 0


async def test_a_tool_that_is_not_there_is_the_protocols_own_error(platform: Platform) -> None:
    await platform.publish()
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        with pytest.raises(MCPError, match="Unknown tool: 'nope'"):
            await client.call_tool("nope", {})


async def test_a_full_queue_is_a_busy_error_with_the_time_after_which_to_try_again(alone: Platform) -> None:
    await alone.publish()
    front = await alone.gateway()
    await alone.served(front)
    most = TURN_QUEUE.max_per_subject
    assert most is not None
    for _ in range(0, most, 500):
        waiting = [turn_requested(alone.team, "bench") for _ in range(500)]
        await asyncio.gather(*(submit(alone.bus, it.model_copy(update={"principal": CALLER})) for it in waiting))
    async with front.client(alone.team, "bench") as client:
        result = await client.call_tool("wait", {"file": "x"})
    assert error_of(result) == {"code": "busy", "retryable": True, "retry_after_ms": 1000}
    assert front.counted("pallas_turns_total", team=alone.team, agent="bench", outcome="busy") == 1


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_without_the_broker_a_call_is_refused_as_busy_in_bounded_time_and_works_when_it_is_back(
    alone: Platform, nats_server: NatsServer, era: Any
) -> None:
    await alone.worker()
    front = await alone.gateway()
    await alone.served(front)
    async with front.client(alone.team, "bench", era) as client:
        assert not (await client.call_tool("say", {"text": "before"})).is_error
        nats_server.stop()
        began = time.monotonic()
        result = await soon(client.call_tool("say", {"text": "during"}), ENOUGH_TIME)
        assert error_of(result)["code"] == "busy"
        assert error_of(result)["retry_after_ms"] == 1000
        assert time.monotonic() - began < ENOUGH_TIME
        assert front.process.probes.missing().get("broker") == "not connected"
        nats_server.start()
        await eventually(lambda: not front.process.probes.missing(), 20)
        assert not (await soon(client.call_tool("say", {"text": "after"}), 20)).is_error


async def test_a_turn_that_waits_tells_its_place(platform: Platform) -> None:
    await platform.publish()
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    for _ in range(2):
        await submit(platform.bus, turn_requested(platform.team, "bench"))
    front = await platform.gateway()
    await platform.served(front)
    told = Collected[str | None]()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.add(message)

    async with front.client(platform.team, "bench") as client:
        calling = asyncio.create_task(client.call_tool("wait", {"file": "x"}, progress_callback=heard))
        assert (await told.count(1))[0] == "bench queued: 2 ahead"
        calling.cancel()
        await asyncio.wait({calling})


async def test_the_place_of_a_turn_falls_as_those_before_it_are_delivered(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_place, "SHARED_FOR", 0.0)
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    stored = [await submit(platform.bus, turn_requested(platform.team, "bench")) for _ in range(3)]
    inbox, arrived = platform.bus.client.new_inbox(), asyncio.Event()

    async def deliver(_message: object) -> None:
        arrived.set()

    await platform.bus.subscribe(inbox, deliver)
    places = QueuePlaces(platform.bus)
    with ExitStack() as followed:
        first, _, third = (followed.enter_context(places.place(platform.team, "bench", each.seq)) for each in stored)
        assert (await first.ahead(), await third.ahead()) == (0, 2)
        for expected in (1, 0):
            arrived.clear()
            name = f"$JS.API.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{consumer_name(platform.team, 'bench')}"
            await platform.bus.send(name, b"1", reply=inbox)
            await soon(arrived.wait())
            assert await third.ahead() == expected
        assert await first.ahead() is None, "it has been delivered"


async def test_turns_that_wait_through_another_gateway_are_counted_too(platform: Platform) -> None:
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    stored = [await submit(platform.bus, turn_requested(platform.team, "bench")) for _ in range(3)]
    with QueuePlaces(platform.bus).place(platform.team, "bench", stored[-1].seq) as place:
        assert await place.ahead() == 2


async def test_the_place_in_a_queue_that_nobody_has_made_is_not_known(platform: Platform) -> None:
    with QueuePlaces(platform.bus).place(platform.team, "nobody", 1) as place:
        assert await place.ahead() is None


async def test_what_one_gateway_asks_the_broker_is_asked_once_for_all_that_wait(platform: Platform) -> None:
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    questions = Collected[str]()

    async def heard(message: Msg) -> None:
        questions.add(message.subject)

    await platform.bus.subscribe(f"$JS.API.CONSUMER.INFO.*.{consumer_name(platform.team, 'bench')}", heard)
    await platform.bus.subscribe(f"$JS.API.CONSUMER.INFO.*.{consumer_name(platform.team, 'nobody')}", heard)
    await platform.bus.client.flush()
    places = QueuePlaces(platform.bus)
    for agent in ("bench", "nobody"):
        questions.items.clear()
        assert await asyncio.gather(*(places.waiting(platform.team, agent) for _ in range(200))) == [0] * 200
        assert await asyncio.gather(*(places.ahead(platform.team, agent, 0) for _ in range(200))) == [None] * 200
        await platform.bus.client.flush()
        assert len(questions.items) == 1, agent


async def test_a_call_beyond_max_queued_is_refused_at_once_and_nothing_is_queued(platform: Platform) -> None:
    await platform.publish(limits=Limits(max_queued=5))
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    for _ in range(2):
        await submit(platform.bus, turn_requested(platform.team, "bench"))
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        await client.list_tools()
        calls = {asyncio.create_task(client.call_tool("wait", {"file": "x"})) for _ in range(20)}
        refused: set[asyncio.Task[CallToolResult]] = set()
        while len(refused) < 17:
            done, _ = await asyncio.wait(calls - refused, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            assert done, f"only {len(refused)} were refused"
            refused |= done
        for call in refused:
            assert error_of(call.result()) == {"code": "busy", "retryable": True, "retry_after_ms": 1000}
        began = time.monotonic()
        assert error_of(await client.call_tool("wait", {"file": "x"}))["code"] == "busy"
        assert time.monotonic() - began < 0.05 * SLOW_MACHINE
        assert (await queue_state(platform.bus, platform.team, "bench")).waiting == 5
        for call in calls - refused:
            call.cancel()
        await asyncio.wait(calls)


async def test_turns_that_are_taken_make_room_at_once(platform: Platform) -> None:
    await platform.worker(lambda text: text.replace("title: Bench\n", "title: Bench\n    max_queued: 1\n"))
    front = await platform.gateway()
    await platform.served(front)
    definition = front.gateway.http.endpoints.find(platform.team, "bench")
    assert isinstance(definition, Endpoint)
    assert definition.agent.definition.limits.max_queued == 1
    async with front.client(platform.team, "bench") as client:
        for number in range(20):
            assert not (await client.call_tool("say", {"text": str(number)})).is_error


async def test_a_queue_of_which_nothing_is_known_refuses_nobody(alone: Platform, nats_server: NatsServer) -> None:
    places = QueuePlaces(alone.bus)
    nats_server.stop()
    began = time.monotonic()
    assert await places.waiting(alone.team, "bench") == 0
    assert time.monotonic() - began < 0.05 * SLOW_MACHINE
