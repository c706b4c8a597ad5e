"""The numbers of waiting and running turns in the broker."""

from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.waiting import Collected, soon

from pallas_contracts.catalog import CHANGES, TURN_LOG, TURN_QUEUE
from pallas_turns.pull import TurnPuller
from pallas_turns.queue import Delivery, QueueDepth, ensure_consumer, queue_depths, stream_depths, submit


async def test_waiting_and_running_turns_are_counted_separately_for_each_agent(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway, worker = await turns(), await bus("agent-worker")
    for agent in ("a__b", "quiet"):
        await ensure_consumer(gateway, team, agent, max_concurrency=None)
    for _ in range(3):
        await submit(gateway, turn_requested(team, "a__b"))
    taken = Collected[Delivery]()

    def take(_agent: str, delivery: Delivery) -> bool:
        taken.add(delivery)
        return True

    puller = TurnPuller(worker, lambda _agent: 0 if taken.items else 1, take)
    await puller.add("busy", team, "a__b")
    await taken.count(1)
    await puller.stop()
    found = await queue_depths(gateway)
    assert found[team, "a__b"] == QueueDepth(waiting=2, running=1)
    assert found[team, "quiet"] == QueueDepth(waiting=0, running=0)


async def test_the_depths_of_any_number_of_agents_are_found(nats_server: NatsServer, turns: Declaring) -> None:
    gateway = await turns(nats_server.url)
    agents = [f"a{number}" for number in range(300)]
    for agent in agents:
        await ensure_consumer(gateway, "many", agent, max_concurrency=None)
    assert set(await soon(queue_depths(gateway))) == {("many", agent) for agent in agents}


async def test_a_missing_stream_has_no_depth(nats_server: NatsServer, turns: Declaring) -> None:
    gateway = await turns(nats_server.url)
    await submit(gateway, turn_requested("t", "a"))
    found = await stream_depths(gateway, (TURN_QUEUE, TURN_LOG, CHANGES))
    assert {name: depth.messages for name, depth in found.items()} == {"TURN_QUEUE": 1, "TURN_LOG": 0}
    assert found["TURN_QUEUE"].bytes > 0
