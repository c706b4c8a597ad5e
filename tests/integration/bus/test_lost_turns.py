"""What happens to turns, and to definitions, when the broker has lost the log, the queue or the catalogue."""

import asyncio
import time

import pytest
from tests.builders import agent_definition, turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.real_parts import until

from pallas_bus.connection import Bus
from pallas_bus.kv import delete, get, put
from pallas_bus.streams import declare, stream_name
from pallas_contracts.catalog import AGENTS, GATEWAY, TURN_LOG, TURN_OBJECTS, TURN_QUEUE, WORKER
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, TurnRequested
from pallas_turns.cancel import LOG_LOST, cancel_begun, withdraw_turn
from pallas_turns.claims import TurnRef, claim, claim_state, find_waiting, request_cancel, stored_outcome
from pallas_turns.definitions import publish_lost
from pallas_turns.pull import TurnPuller
from pallas_turns.queue import Delivery, ensure_consumer, submit
from pallas_turns.settle import End, Running


@pytest.fixture
async def gateway(nats_server: NatsServer, bus: Connecting) -> Bus:
    """A gateway at a broker of its own, which has its streams."""
    made = await bus(GATEWAY, url=nats_server.url)
    await declare(made, TURN_QUEUE, TURN_LOG, TURN_OBJECTS, AGENTS)
    return made


async def lose(gateway: Bus, stream: str) -> None:
    """Lose a stream and make it again, as its owner does."""
    config = gateway.used[stream]
    await gateway.api(f"STREAM.DELETE.{stream}", {})
    await gateway.api(f"STREAM.CREATE.{stream}", config)


async def submitted(gateway: Bus, agent: str) -> TurnRequested:
    """A turn in the queue of an agent."""
    request = turn_requested("t", agent)
    await submit(gateway, request)
    return request


class Worker:
    """Takes one turn of an agent after the other, when it is told to."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.room = 0
        self.taken = asyncio.Queue[Delivery]()
        self.puller = TurnPuller(bus, lambda _: self.room, self._take)

    def _take(self, key: str, delivery: Delivery) -> bool:
        self.room -= 1
        self.taken.put_nowait(delivery)
        return True

    async def host(self, agent: str) -> None:
        """Make the consumer of an agent."""
        await ensure_consumer(self.bus, "t", agent, max_concurrency=None)
        if agent not in self.puller:
            await self.puller.add(agent, "t", agent)

    async def take(self) -> Delivery:
        """The next turn."""
        self.room += 1
        await self.puller.refill()
        async with asyncio.timeout(10):
            return await self.taken.get()


async def claimed(bus: Bus, request: TurnRequested, delivery: Delivery) -> None:
    """A worker claims the turn."""
    made = Claimed(attempt=1, worker="w", delivery=delivery.reply, at=utc_now())
    await claim(bus, TurnRef.of(request), made, after=0)


async def test_when_the_log_was_lost_those_turns_are_cancelled_that_had_begun(gateway: Bus, bus: Connecting) -> None:
    worker = Worker(gateway)
    for agent in ("one", "idle"):
        await worker.host(agent)
    begun, again = [await submitted(gateway, "one") for _ in range(2)]
    for request in (begun, again):
        delivery = await worker.take()
        await claimed(gateway, request, delivery)
    fresh = await submitted(gateway, "one")
    never = await submitted(gateway, "nobody")
    await lose(gateway, TURN_LOG.name)
    await delivery.nak()
    # A worker that has not noticed the loss takes it up again, and one that waited.
    taken = [await worker.take() for _ in range(2)]
    by_id = {TurnRequested.model_validate_json(it.data).turn_id: it for it in taken}
    for request in (again, fresh):
        await claimed(gateway, request, by_id[request.turn_id])
    later = await submitted(gateway, "one")
    await worker.take()
    await cancel_begun(gateway)

    async def is_cancelled(request: TurnRequested) -> bool:
        last = (await claim_state(gateway, TurnRef.of(request))).claim
        return isinstance(last, CancelRequested) and last.reason == LOG_LOST

    found = [await is_cancelled(request) for request in (begun, again, fresh, never, later)]
    assert found == [True, True, False, False, False]


async def test_a_turn_that_is_withdrawn_takes_no_other_one_out_of_a_queue_that_was_made_again(gateway: Bus) -> None:
    lost = await submitted(gateway, "one")
    waiting = await find_waiting(gateway, TurnRef.of(lost))
    assert waiting is not None
    await lose(gateway, TURN_QUEUE.name)
    other = await submitted(gateway, "one")
    there = await find_waiting(gateway, TurnRef.of(other))
    assert there is not None
    assert there.position == waiting.position
    await request_cancel(gateway, TurnRef.of(lost), "its caller left", lost)
    await withdraw_turn(gateway, lost, waiting.position)
    assert await stored_outcome(gateway, TurnRef.of(lost)) is not None
    assert await find_waiting(gateway, TurnRef.of(other)) == there


@pytest.mark.parametrize("noticed", [True, False])
async def test_the_end_of_a_delivery_of_a_lost_queue_settles_no_turn_of_the_new_one(
    gateway: Bus, *, noticed: bool
) -> None:
    worker, running, ends = Worker(gateway), Running(), asyncio.Event()

    async def concluded() -> End:
        await ends.wait()
        return End.CONCLUDED

    await worker.host("one")
    await submitted(gateway, "one")
    settling = asyncio.create_task(running.settle(await worker.take(), concluded()))
    await asyncio.sleep(0)
    if noticed:
        gateway.missed[TURN_QUEUE.name] = time.monotonic()
    await lose(gateway, TURN_QUEUE.name)
    await worker.host("one")
    other = await submitted(gateway, "one")
    of_new = asyncio.create_task(running.settle(await worker.take(), asyncio.sleep(0, End.ELSEWHERE)))
    if noticed:
        await running.queue_lost(gateway)
    ends.set()
    await asyncio.gather(settling, of_new)
    assert not running.deliveries.keys() | running.lost
    await gateway.flush()

    async def is_gone() -> bool:
        return await find_waiting(gateway, TurnRef.of(other)) is None

    if noticed:
        assert not await is_gone()
    else:
        await until(is_gone)


async def test_only_definitions_that_were_lost_are_published_again(gateway: Bus, bus: Connecting) -> None:
    worker = await bus(WORKER, url=gateway.client.connected_url.netloc if gateway.client.connected_url else None)
    newer = agent_definition("t", "newer", description="The definition of a newer worker.")
    for known in (newer, agent_definition("t", "retired"), agent_definition("t", "ours")):
        await put(worker, AGENTS, known, team="t", agent=known.agent)
    ours = [agent_definition("t", agent) for agent in ("newer", "retired", "ours")]
    await delete(worker, AGENTS, team="t", agent="retired")
    await publish_lost(worker, "t", [*ours, agent_definition("t", "lost")])
    found = {name: await get(worker, AGENTS, team="t", agent=name) for name in ("newer", "retired", "ours", "lost")}
    assert found["newer"] == newer
    assert found["retired"] is None
    assert found["lost"] is not None
    await lose(gateway, stream_name(AGENTS))
    await publish_lost(worker, "t", ours)
    assert await get(worker, AGENTS, team="t", agent="ours") is not None
