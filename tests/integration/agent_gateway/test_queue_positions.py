"""What a gateway knows of a queue: how many turns wait, of which callers, and the position of each."""

import asyncio
from contextlib import ExitStack

import pytest
from nats.aio.msg import Msg
from tests.builders import turn_requested
from tests.embedded import NatsServer
from tests.integration.agent_gateway.conftest import Platform
from tests.waiting import Collected, soon, within

from pallas_contracts.catalog import TURN_QUEUE
from pallas_contracts.turns import Principal
from pallas_turns import positions as queue_positions
from pallas_turns.positions import QueuePositions
from pallas_turns.queue import consumer_name, ensure_consumer, submit

ANYBODY = Principal().token


async def test_a_caller_gets_the_queue_position_of_its_turn(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the queue is otherwise read while the turn is queued, and the turn counts as one of the two.
    monkeypatch.setattr("pallas_turns.positions._READ_TIMEOUT", 5.0)
    await platform.publish()
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    for _ in range(2):
        await submit(platform.bus, turn_requested(platform.team, "bench"))
    front = await platform.gateway()
    await platform.served(front)
    messages = Collected[str | None]()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        messages.add(message)

    async with front.client(platform.team, "bench") as client:
        calling = asyncio.create_task(client.call_tool("wait", {"file": "x"}, progress_callback=on_progress))
        assert (await messages.count(1))[0] == "bench queued: 2 ahead"
        calling.cancel()
        await asyncio.wait({calling})


async def test_the_queue_position_falls_as_earlier_turns_are_delivered(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_positions, "SHARED_FOR", 0.0)
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    stored = [await submit(platform.bus, turn_requested(platform.team, "bench")) for _ in range(3)]
    inbox, arrived = platform.bus.client.new_inbox(), asyncio.Event()

    async def deliver(_message: object) -> None:
        arrived.set()

    await platform.bus.subscribe(inbox, deliver)
    places = QueuePositions(platform.bus)
    with ExitStack() as followed:
        put_in = [places.waiting(platform.team, "bench", ANYBODY, each.seq) for each in stored]
        first, _, third = map(followed.enter_context, put_in)
        assert (await first.ahead(), await third.ahead()) == (0, 2)
        for expected in (1, 0):
            arrived.clear()
            name = f"$JS.API.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{consumer_name(platform.team, 'bench')}"
            await platform.bus.send(name, b"1", reply=inbox)
            await soon(arrived.wait())
            assert await third.ahead() == expected
        assert await first.ahead() is None, "it has been delivered"


async def test_the_queue_position_counts_turns_of_other_gateways(platform: Platform) -> None:
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    stored = [await submit(platform.bus, turn_requested(platform.team, "bench")) for _ in range(3)]
    with QueuePositions(platform.bus).waiting(platform.team, "bench", ANYBODY, stored[-1].seq) as queue_position:
        assert await queue_position.ahead() == 2


async def test_the_queue_position_without_a_consumer_is_unknown(platform: Platform) -> None:
    with QueuePositions(platform.bus).waiting(platform.team, "nobody", ANYBODY, 1) as queue_position:
        assert await queue_position.ahead() is None


async def test_one_question_to_the_broker_serves_all_waiting_turns_of_a_gateway(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_positions, "SHARED_FOR", 60.0)
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    questions = Collected[str]()

    async def on_message(message: Msg) -> None:
        questions.add(message.subject)

    await platform.bus.subscribe(f"$JS.API.CONSUMER.INFO.*.{consumer_name(platform.team, 'bench')}", on_message)
    await platform.bus.subscribe(f"$JS.API.CONSUMER.INFO.*.{consumer_name(platform.team, 'nobody')}", on_message)
    await platform.bus.client.flush()
    places = QueuePositions(platform.bus)
    for agent in ("bench", "nobody"):
        questions.items.clear()
        full = await asyncio.gather(*(places.full(platform.team, agent, ANYBODY, 1) for _ in range(200)))
        assert full == [None] * 200
        assert await asyncio.gather(*(places.ahead((platform.team, agent), 0) for _ in range(200))) == [None] * 200
        await platform.bus.client.flush()
        assert len(questions.items) == 1, agent


async def test_a_queue_of_unknown_length_refuses_no_call(alone: Platform, nats_server: NatsServer) -> None:
    places = QueuePositions(alone.bus)
    nats_server.stop()
    async with within(0.2):
        assert await places.full(alone.team, "bench", ANYBODY, 1) is None
