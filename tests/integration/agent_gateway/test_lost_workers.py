"""Turns of silent workers are given back, whatever happens to other turns meanwhile."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from nats.aio.msg import Msg
from tests.conftest import Connecting
from tests.waiting import Collected

from pallas_bus.connection import Bus
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed
from pallas_turns import liveness as worker_liveness
from pallas_turns.liveness import watch_workers
from pallas_turns.queue import nak

type During = Callable[[Callable[[], object]], None]


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> During:
    """Call a function once, while the next turn is given back. Heartbeats are short."""
    actions: list[Callable[[], object]] = []

    async def slowly(bus: Bus, delivery: str) -> None:
        while actions:
            actions.pop()()
        await nak(bus, delivery)

    monkeypatch.setattr(worker_liveness, "nak", slowly)
    monkeypatch.setattr(worker_liveness, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(worker_liveness, "SILENCE", 0.08)
    return actions.append


async def returned_to(bus: Bus, team: str) -> Collected[str]:
    """The deliveries of that team that are given back from here on."""
    deliveries = Collected[str]()

    async def arrived(message: Msg) -> None:
        deliveries.add(message.subject.removeprefix(f"{team}."))

    await bus.subscribe(f"{team}.>", arrived)
    return deliveries


def claim(team: str, worker: str, delivery: str) -> Claimed:
    return Claimed(attempt=1, worker=worker, delivery=f"{team}.{delivery}", at=utc_now())


async def test_the_watch_goes_on_when_a_turn_ends_during_the_nak_of_another(
    bus: Connecting, team: str, during: During
) -> None:
    gateway = await bus("agent-gateway")
    returned = await returned_to(gateway, team)
    async with watch_workers(gateway) as watch:
        with ExitStack() as ending, watch.holding("first") as first, watch.holding("third") as third:
            second = ending.enter_context(watch.holding("second"))
            during(ending.close)
            first(claim(team, "lost", "1"))
            second(claim(team, "lost", "2"))
            third(claim(team, "lost", "3"))
            assert await returned.count(2) == ["1", "3"]
            assert not watch.keeping.done()


async def test_a_turn_claimed_again_during_the_nak_of_another_is_watched_at_its_new_worker(
    bus: Connecting, team: str, during: During
) -> None:
    gateway = await bus("agent-gateway")
    returned = await returned_to(gateway, team)
    async with watch_workers(gateway) as watch:
        with watch.holding("first") as first, watch.holding("second") as second:
            during(lambda: second(claim(team, "next", "2-again")))
            first(claim(team, "lost", "1"))
            second(claim(team, "lost", "2"))
            assert await returned.count(2) == ["1", "2-again"]
