"""Followers of a turn are notified when a caller leaves it, whatever messages were lost."""

from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.link import linked
from tests.waiting import Collected

from pallas_bus.turnlog.followers import publish_left, watch_leaves
from pallas_bus.turnlog.ref import TurnRef


def a_turn_address(team: str) -> TurnRef:
    return TurnRef.of(turn_requested(team))


async def test_a_leave_is_notified_with_its_position_when_it_is_stored(turns: Declaring, team: str) -> None:
    gateway, leaves = await turns(), Collected[tuple[TurnRef, int]]()
    async with watch_leaves(gateway, lambda ref, at: leaves.add((ref, at)), list):
        await gateway.flush()
        left = a_turn_address(team)
        assert (left, await publish_left(gateway, left)) in await leaves.count(1)


async def test_a_missed_leave_is_notified_after_a_reconnect_although_a_later_one_arrived(
    nats_server: NatsServer, turns: Declaring, bus: Connecting, team: str
) -> None:
    other, leaves = await turns(nats_server.url), Collected[tuple[TurnRef, int]]()
    missed, later = a_turn_address(team), a_turn_address(team)
    async with linked(nats_server.url) as link:
        gateway = await bus("agent-gateway", url=link.url)

        async def a_later_one() -> None:
            await publish_left(other, later)

        gateway.on_reconnect(a_later_one)
        async with watch_leaves(gateway, lambda ref, at: leaves.add((ref, at)), lambda: [missed], every=600.0):
            await gateway.flush()
            await link.cut()
            position = await publish_left(other, missed)
            await link.mend()
            await leaves.until(lambda seen: (missed, position) in seen and later in [ref for ref, _ in seen])
