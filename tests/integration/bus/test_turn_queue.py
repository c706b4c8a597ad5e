"""Waiting turns: which ones a worker pulls for its free slots, and which ones it leaves to others."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.waiting import Collected, soon

from pallas_bus.connection import Bus
from pallas_contracts.catalog import TURN_QUEUE
from pallas_contracts.errors import Rejected, Unavailable
from pallas_contracts.turns import TurnRequested
from pallas_turns import pull as puller
from pallas_turns.pull import TurnPuller
from pallas_turns.queue import Delivery, delete_consumer, ensure_consumer, submit


@dataclass
class Slots:
    """A worker with `free` slots, which holds what it takes until `finish`."""

    free: int
    taken: Collected[tuple[str, TurnRequested, Delivery]] = field(
        default_factory=Collected[tuple[str, TurnRequested, Delivery]]
    )
    refused: int = 0
    puller: TurnPuller | None = None

    def room(self, agent: str) -> int:
        return self.free

    def take(self, agent: str, delivery: Delivery) -> bool:
        if not self.free:
            self.refused += 1
            return False
        self.free -= 1
        self.taken.add((agent, TurnRequested.model_validate_json(delivery.data), delivery))
        return True

    async def pull(self, bus: Bus, team: str, *agents: str) -> TurnPuller:
        self.puller = TurnPuller(bus, self.room, self.take)
        await self.puller.start()
        for agent in agents:
            await ensure_consumer(bus, team, agent, max_concurrency=None)
            await self.puller.add(agent, team, agent)
        return self.puller

    async def finish(self, delivery: Delivery) -> None:
        assert self.puller is not None
        await delivery.ack()
        self.free += 1
        await self.puller.refill()

    @property
    def instance(self) -> str:
        assert self.puller is not None
        return self.puller.bus.instance

    @property
    def turn_ids(self) -> list[str]:
        return [request.turn_id for _, request, _ in self.taken.items]


async def test_a_submitted_turn_reaches_a_waiting_worker(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=1)
    await slots.pull(worker, team, "harper")
    request = turn_requested(team)
    await submit(gateway, request)
    [(agent, taken, delivery)] = await slots.taken.count(1)
    assert (agent, taken, delivery.delivered) == ("harper", request, 1)


async def test_a_turn_submitted_twice_is_queued_once(turns: Declaring, team: str) -> None:
    gateway, request = await turns(), turn_requested(team)
    first = await submit(gateway, request)
    again = await submit(gateway, request)
    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_a_turn_over_the_broker_limit_is_rejected(turns: Declaring, team: str) -> None:
    gateway = await turns()
    with pytest.raises(Rejected) as refused:
        await submit(gateway, turn_requested(team, arguments={"message": "x" * gateway.max_payload}))
    assert refused.value.code == "too_large"


async def test_a_worker_takes_turns_in_order_and_only_for_its_slots(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=2)
    requests = [turn_requested(team) for _ in range(5)]
    for request in requests:
        await submit(gateway, request)
    await slots.pull(worker, team, "harper")
    await slots.taken.count(2)
    assert await _waiting(gateway, team, "harper") == 3
    for number in range(5):
        _, _, delivery = (await slots.taken.count(number + 1))[number]
        await slots.finish(delivery)
    await slots.taken.count(5)
    assert slots.turn_ids == [request.turn_id for request in requests]
    assert slots.refused == 0


async def test_a_turn_that_arrives_without_a_free_slot_goes_to_another_worker(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway, full, idle = await turns(), Slots(free=1), Slots(free=1)
    await full.pull(await bus("agent-worker"), team, "harper", "research")
    await submit(gateway, turn_requested(team, "harper"))
    await full.taken.count(1)
    await submit(gateway, turn_requested(team, "research"))
    await idle.pull(await bus("agent-worker"), team, "research")
    [(_, request, _)] = await idle.taken.count(1)
    assert request.agent == "research"
    assert len(full.taken.items) == 1


async def test_a_quiet_agent_is_not_starved_by_a_noisy_one(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=1)
    for _ in range(40):
        await submit(gateway, turn_requested(team, "noisy"))
    for _ in range(5):
        await submit(gateway, turn_requested(team, "quiet"))
    await slots.pull(worker, team, "noisy", "quiet")
    for number in range(15):
        _, _, delivery = (await slots.taken.count(number + 1))[number]
        await slots.finish(delivery)
    assert Counter(agent for agent, _, _ in slots.taken.items[:15])["quiet"] == 5


async def test_two_workers_share_the_waiting_turns_and_none_runs_twice(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway = await turns()
    taken = Collected[tuple[str, TurnRequested, Delivery]]()
    workers = [Slots(free=3, taken=taken), Slots(free=3, taken=taken)]
    for slots in workers:
        await slots.pull(await bus("agent-worker"), team, "harper")
    requests = [turn_requested(team) for _ in range(40)]
    await asyncio.gather(*(submit(gateway, request) for request in requests))
    for number in range(40):
        _, _, delivery = (await taken.count(number + 1))[number]
        [owner] = [slots for slots in workers if slots.puller is not None and slots.puller.bus is delivery.bus]
        await owner.finish(delivery)
    assert sorted(workers[0].turn_ids) == sorted(request.turn_id for request in requests)
    assert {delivery.bus.instance for _, _, delivery in taken.items} == {slots.instance for slots in workers}


async def test_a_nacked_turn_is_delivered_again(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=2)
    await slots.pull(worker, team, "harper")
    await submit(gateway, turn_requested(team))
    [(_, _, first)] = await slots.taken.count(1)
    await first.nak()
    (_, _, again) = (await slots.taken.count(2))[1]
    assert again.delivered == 2


async def test_turns_that_come_back_together_are_pulled_together_and_the_next_one_is_awaited(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway, lost, other = await turns(), Slots(free=9), Slots(free=20)
    for _ in range(9):
        await submit(gateway, turn_requested(team))
    await lost.pull(await bus("agent-worker"), team, "harper")
    await lost.taken.count(9)
    worker = await bus("agent-worker")
    pulls = count_pulls(worker)
    await other.pull(worker, team, "harper")
    for _, _, delivery in lost.taken.items:
        await delivery.nak()
    await other.taken.count(9)
    await submit(gateway, turn_requested(team))
    await other.taken.count(10)
    assert (lost.refused, other.refused) == (0, 0)
    assert len(pulls) < 8


async def test_turns_that_wait_are_pulled_for_all_free_slots_and_no_more(
    turns: Declaring, bus: Connecting, team: str
) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=15)
    for _ in range(40):
        await submit(gateway, turn_requested(team))
    pulls = count_pulls(worker)
    await slots.pull(worker, team, "harper")
    await slots.taken.count(15)
    assert (await _waiting(gateway, team, "harper"), slots.refused, len(pulls)) == (25, 0, 2)
    for number in range(40):
        _, _, delivery = (await slots.taken.count(number + 1))[number]
        await slots.finish(delivery)
    assert (len(set(slots.turn_ids)), slots.refused) == (40, 0)


def count_pulls(worker: Bus) -> list[str]:
    """A list that grows with each pull request of a worker."""
    send, pulls = worker.send, list[str]()

    async def counting(subject: str, *given: Any, **named: Any) -> None:
        if "MSG.NEXT" in subject:
            pulls.append(subject)
        await send(subject, *given, **named)

    worker.send = counting
    return pulls


async def test_a_rejected_turn_leaves_the_queue(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=1)
    await slots.pull(worker, team, "harper")
    for _ in range(2):
        await submit(gateway, turn_requested(team))
    [(_, _, first)] = await slots.taken.count(1)
    await first.reject()
    slots.free += 1
    assert slots.puller is not None
    await slots.puller.refill()
    (_, _, second) = (await slots.taken.count(2))[1]
    assert second.delivered == 1


async def test_max_concurrency_holds_over_all_workers(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, slots = await turns(), Slots(free=5)
    worker = await bus("agent-worker")
    puller = await slots.pull(worker, team, "harper")
    await ensure_consumer(worker, team, "harper", max_concurrency=2)
    for _ in range(4):
        await submit(gateway, turn_requested(team))
    await slots.taken.count(2)
    await puller.refill()
    assert (await _consumer(gateway, team, "harper"))["num_ack_pending"] == 2
    await slots.finish(slots.taken.items[0][2])
    await slots.finish(slots.taken.items[1][2])
    await slots.taken.count(4)


async def test_a_lost_pull_is_retried_until_it_succeeds(
    turns: Declaring, bus: Connecting, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=1)
    send, pulls = worker.send, list[str]()

    async def losing(subject: str, *given: Any, **named: Any) -> None:
        pulls.append(subject)
        match pulls:
            case [_]:
                pass
            case [_, _]:
                raise Unavailable("its buffer is full")
            case _:
                await send(subject, *given, **named)

    monkeypatch.setattr(puller, "_LATE", 0.2)
    await ensure_consumer(worker, team, "harper", max_concurrency=None)
    monkeypatch.setattr(worker, "send", losing)
    await slots.pull(worker, team, "harper")
    await submit(gateway, turn_requested(team))
    await slots.taken.count(1)


@pytest.mark.parametrize("kill", [False, True], ids=["SIGTERM", "SIGKILL"])
async def test_a_worker_pulls_again_after_the_server_restarts(
    nats_server: NatsServer, turns: Declaring, bus: Connecting, team: str, kill: bool
) -> None:
    gateway, slots = await turns(nats_server.url), Slots(free=2)
    worker = await bus("agent-worker", url=nats_server.url)
    await slots.pull(worker, team, "harper")
    back = asyncio.Event()

    async def note() -> None:
        back.set()

    gateway.on_reconnect(note)
    nats_server.restart(kill=kill)
    await soon(back.wait())
    request = turn_requested(team)
    await submit(gateway, request)
    await slots.taken.count(1, within=5.0)
    assert slots.turn_ids == [request.turn_id]


async def test_a_missing_consumer_is_polled_until_it_is_back(
    turns: Declaring, bus: Connecting, team: str, caplog: pytest.LogCaptureFixture
) -> None:
    gateway, worker, slots = await turns(), await bus("agent-worker"), Slots(free=1)
    await slots.pull(worker, team, "harper")
    await delete_consumer(gateway, team, "harper")
    await submit(gateway, turn_requested(team))
    await ensure_consumer(gateway, team, "harper", max_concurrency=None)
    await slots.taken.count(1, within=5.0)
    assert sum("a pull request was refused" in record.message for record in caplog.records) <= 3


async def test_a_stopped_puller_takes_no_turns(turns: Declaring, bus: Connecting, team: str) -> None:
    gateway, stopped, other = await turns(), Slots(free=1), Slots(free=1)
    puller = await stopped.pull(await bus("agent-worker"), team, "harper")
    await puller.stop()
    await other.pull(await bus("agent-worker"), team, "harper")
    await submit(gateway, turn_requested(team))
    await other.taken.count(1)
    assert stopped.taken.items == []


async def _consumer(bus: Bus, team: str, agent: str) -> dict[str, int]:
    return await bus.api(f"CONSUMER.INFO.{TURN_QUEUE.name}.{team}__{agent}", {})


async def _waiting(bus: Bus, team: str, agent: str) -> int:
    return (await _consumer(bus, team, agent))["num_pending"]
