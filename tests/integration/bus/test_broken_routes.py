"""Messages lost between two brokers of a cluster are found, although no client's connection has broken."""

from tests.builders import a_bucket, turn_outcome, turn_requested
from tests.integration.bus.broken_routes import broken_routes
from tests.integration.bus.turns import attempt_of, following, read_to_end, summary_of, text
from tests.waiting import eventually, soon

from pallas_bus.connection import connect
from pallas_bus.kv import put, watch
from pallas_contracts.catalog import GATEWAY
from pallas_contracts.health import HealthAsked
from pallas_contracts.turns import Claimed
from pallas_turns.claims import TurnRef, request_cancel


async def test_messages_lost_on_a_cut_route_are_found_although_no_connection_broke(team: str) -> None:
    ended, waiting, kept = turn_requested(team), turn_requested(team), a_bucket(HealthAsked, owner=GATEWAY)
    async with (
        broken_routes(kept) as brokers,
        connect(brokers.lonely, GATEWAY) as gateway,
        connect(brokers.others, GATEWAY) as other,
        watch(gateway, kept, every=1.0) as table,
        following(gateway) as feeds,
    ):
        await soon(table.synced.wait())
        ends, is_cancelled = feeds.open(TurnRef.of(ended)), feeds.open(TurnRef.of(waiting))
        writer = await attempt_of(other, ended)
        assert isinstance(await soon(anext(ends)), Claimed)

        await brokers.cut()
        writer.emit(text("word"))
        await writer.conclude(turn_outcome(ended, events=writer.last_event))
        await request_cancel(other, TurnRef.of(waiting), "by an operator")
        await put(other, kept, HealthAsked(team="t", agent="a"), key="k")
        assert len(table) == 0
        await brokers.mend()

        assert summary_of(await read_to_end(ends)) == ["word", "completed"]
        assert summary_of([await soon(anext(is_cancelled))]) == ["cancelled: by an operator"]
        await eventually(lambda: "k" in table)
        assert gateway.breaks == 0
