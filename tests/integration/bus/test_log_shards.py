"""What the log in shards (docs/adr/0029) relies on: what a real broker republishes, and fences in each shard."""

from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest
from tests.bench.scale.brokers import Cluster, brokers
from tests.bench.scale.load import Task, run
from tests.bench.scale.streams import log_name
from tests.bench.scale.turns import prefix
from tests.builders import turn_outcome, turn_requested

from pallas_bus.transport.headers import EXPECTED, EXPECTED_SUBJECT
from pallas_bus.turnlog.feeds import follow_turns
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_OUTCOME
from pallas_contracts.contract import Template
from pallas_contracts.errors import Conflict
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, TurnClaim, TurnOutcome


@pytest.fixture(scope="module")
async def cluster() -> AsyncGenerator[Cluster]:
    """One broker with two shards."""
    async with brokers(1) as cluster:
        await cluster.make(2, 1)
        yield cluster


def _in_shard(ref: TurnRef, template: Template, shard: int) -> str:
    return ref.on(template).replace("pallas.v1", prefix(shard))


async def _claim(cluster: Cluster, ref: TurnRef, shard: int) -> int:
    claimed = Claimed(attempt=1, worker="w1", tool="harper", at=utc_now())
    claim = TurnClaim(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, claim=claimed)
    subject = _in_shard(ref, TURN_CLAIM.template, shard)
    stored = await cluster.bus.put(subject, claim.model_dump_json().encode(), {EXPECTED: "0"})
    assert stored.stream == log_name(shard)
    return stored.seq


async def test_a_feed_of_a_process_that_knows_one_shard_gets_the_live_messages_of_all(cluster: Cluster) -> None:
    async with follow_turns(cluster.bus) as feeds:
        for shard in (0, 1):
            request = turn_requested("kottos")
            ref = TurnRef.of(request)
            feed = feeds.open(ref)
            await _claim(cluster, ref, shard)
            outcome = turn_outcome(request).model_dump_json().encode()
            await cluster.bus.put(_in_shard(ref, TURN_OUTCOME.template, shard), outcome)
            assert [type(item) for item in [item async for item in feed]] == [Claimed, TurnOutcome]


async def test_a_shard_has_fences_and_positions_of_its_own(cluster: Cluster) -> None:
    refs = [TurnRef.of(turn_requested("kottos")) for _ in range(3)]
    positions = [await _claim(cluster, ref, 1) for ref in refs]
    assert all(after == before + 1 for before, after in pairwise(positions))
    subject = _in_shard(refs[0], TURN_OUTCOME.template, 1)
    fenced = {EXPECTED: str(positions[1]), EXPECTED_SUBJECT: _in_shard(refs[0], TURN_CLAIM.template, 1)}
    with pytest.raises(Conflict):
        await cluster.bus.put(subject, b"{}", fenced)


@pytest.mark.parametrize("shard", [0, 1])
async def test_turns_are_delivered_claimed_and_ended_in_each_shard(cluster: Cluster, shard: int) -> None:
    ended = await run(Task(cluster.servers[0].port, shard, steps=2, at_once=4, readers=1, seconds=0.2, warm_up=0.1))
    assert ended["turns"]
    assert ended["live_bytes"]
    assert ended["refused"] == []
