"""What was lost between two brokers of a cluster is found although no connection of a client has broken."""

from tests.builders import a_bucket, turn_outcome, turn_requested
from tests.integration.bus.broken_routes import broken_routes
from tests.integration.bus.turns import attempt_of, following, in_short, text, whole
from tests.waiting import Collected, eventually, soon

from pallas_bus.connection import connect
from pallas_bus.tables import put, watch
from pallas_bus.turn_callers import hear_left, say_left
from pallas_bus.turn_claims import Address, request_cancel
from pallas_contracts.catalog import GATEWAY
from pallas_contracts.health import HealthAsked
from pallas_contracts.turns import Claimed


async def test_what_a_broken_route_lost_is_found_although_no_connection_broke(team: str) -> None:
    ended, waiting, kept = turn_requested(team), turn_requested(team), a_bucket(HealthAsked, owner=GATEWAY)
    left = Collected[tuple[Address, int]]()
    async with (
        broken_routes(kept) as brokers,
        connect(brokers.lonely, GATEWAY) as gateway,
        connect(brokers.others, GATEWAY) as other,
        watch(gateway, kept, every=1.0) as table,
        hear_left(gateway, lambda address, at: left.add((address, at)), lambda: [Address.of(ended)]),
        following(gateway) as feeds,
    ):
        await soon(table.synced.wait())
        ends, is_cancelled = feeds.open(Address.of(ended)), feeds.open(Address.of(waiting))
        writer = await attempt_of(other, ended)
        assert isinstance(await soon(anext(ends)), Claimed)

        await brokers.cut()
        writer.emit(text("word"))
        await writer.conclude(turn_outcome(ended, events=writer.last_event))
        await request_cancel(other, Address.of(waiting), "by an operator")
        position = await say_left(other, Address.of(ended))
        await put(other, kept, HealthAsked(team="t", agent="a"), key="k")
        assert len(table) == 0
        await brokers.mend()

        assert in_short(await whole(ends)) == ["word", "completed"]
        assert in_short([await soon(anext(is_cancelled))]) == ["cancelled: by an operator"]
        await left.until(lambda said: (Address.of(ended), position) in said)
        await eventually(lambda: "k" in table)
        assert gateway.breaks == 0
