"""Who follows a turn hears that somebody has left it, whatever was lost on the way."""

from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.link import linked
from tests.waiting import Collected

from pallas_bus.turn_callers import hear_left, say_left
from pallas_bus.turn_claims import Address


def an_address(team: str) -> Address:
    return Address.of(turn_requested(team))


async def test_a_leave_is_told_as_it_is_stored_whoever_follows_the_turn(turns: Declaring, team: str) -> None:
    gateway, told = await turns(), Collected[tuple[Address, int]]()
    async with hear_left(gateway, lambda address, at: told.add((address, at)), list):
        await gateway.flush()
        left = an_address(team)
        assert (left, await say_left(gateway, left)) in await told.count(1)


async def test_a_leave_that_was_missed_is_told_after_a_reconnect_although_a_later_one_was_heard(
    nats_server: NatsServer, turns: Declaring, bus: Connecting, team: str
) -> None:
    other, told = await turns(nats_server.url), Collected[tuple[Address, int]]()
    missed, heard = an_address(team), an_address(team)
    async with linked(nats_server.url) as link:
        gateway = await bus("agent-gateway", url=link.url)

        async def a_later_one() -> None:
            await say_left(other, heard)

        gateway.on_reconnect(a_later_one)
        async with hear_left(gateway, lambda address, at: told.add((address, at)), lambda: [missed], every=600.0):
            await gateway.flush()
            await link.cut()
            position = await say_left(other, missed)
            await link.mend()
            await told.until(lambda said: (missed, position) in said and heard in [address for address, _ in said])
