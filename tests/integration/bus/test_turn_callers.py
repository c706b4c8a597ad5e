"""Who follows a turn hears that somebody has left it, whatever was lost on the way."""

from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.link import linked
from tests.waiting import Collected

from pallas_bus.turnlog.followers import publish_left, watch_leaves
from pallas_bus.turnlog.ref import TurnRef


def an_address(team: str) -> TurnRef:
    return TurnRef.of(turn_requested(team))


async def test_a_leave_is_told_as_it_is_stored_whoever_follows_the_turn(turns: Declaring, team: str) -> None:
    gateway, told = await turns(), Collected[tuple[TurnRef, int]]()
    async with watch_leaves(gateway, lambda ref, at: told.add((ref, at)), list):
        await gateway.flush()
        left = an_address(team)
        assert (left, await publish_left(gateway, left)) in await told.count(1)


async def test_a_leave_that_was_missed_is_told_after_a_reconnect_although_a_later_one_was_heard(
    nats_server: NatsServer, turns: Declaring, bus: Connecting, team: str
) -> None:
    other, told = await turns(nats_server.url), Collected[tuple[TurnRef, int]]()
    missed, heard = an_address(team), an_address(team)
    async with linked(nats_server.url) as link:
        gateway = await bus("agent-gateway", url=link.url)

        async def a_later_one() -> None:
            await publish_left(other, heard)

        gateway.on_reconnect(a_later_one)
        async with watch_leaves(gateway, lambda ref, at: told.add((ref, at)), lambda: [missed], every=600.0):
            await gateway.flush()
            await link.cut()
            position = await publish_left(other, missed)
            await link.mend()
            await told.until(lambda said: (missed, position) in said and heard in [ref for ref, _ in said])
