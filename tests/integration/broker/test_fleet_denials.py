"""What the fleet must not do on a broker with rights for each service is denied, and so is what only it may do."""

from collections.abc import Iterator

from tests.integration.broker.guarded import ALPHA, Guarded, trying, worker

from pallas_bus.streams import bucket_subject
from pallas_contracts.catalog import (
    AGENTS,
    DATA_TEAM,
    FLEET,
    FLEET_AGENTS,
    FLEET_TASKS,
    FLEET_TASKS_AGENT,
    FLEET_TEAM,
    PIPELINES,
    POOL,
    TURN_CLAIM,
    TURN_OUTCOME,
    TURN_REQUESTED,
)


def of_others() -> Iterator[str]:
    """What only those who execute or make turns of other teams may do, and what other services own."""
    for team in (ALPHA, DATA_TEAM):
        yield bucket_subject(AGENTS, f"{team}.bench")
        yield TURN_REQUESTED.template.subject(team=team, agent="bench", caller="x", turn="x")
        yield from (it.template.subject(team=team, agent="bench", turn="x") for it in (TURN_CLAIM, TURN_OUTCOME))
        yield from (f"$JS.API.CONSUMER.{verb}.TURN_QUEUE.{team}__bench" for verb in ("MSG.NEXT", "DELETE", "CREATE"))
        yield f"$JS.ACK.TURN_QUEUE.{team}__bench.1.1.1.1.1"
        yield f"$JS.API.DIRECT.GET.TURN_LOG.{TURN_CLAIM.template.subject(team=team, agent='bench', turn='x')}"
        yield f"$JS.API.CONSUMER.CREATE.TURN_LOG.mine.{TURN_CLAIM.template.filter(team=team)}"
    yield from (f"$JS.API.DIRECT.GET.{stream}" for stream in ("TURN_LOG", "TURN_QUEUE", "TURN_OBJECTS", "KV_agents"))
    yield from ("$KV.data_agents.feed", "$KV.gateways.front", "$KV.health.alpha.bench", "pallas.v1.pool.ask")


async def test_the_fleet_can_neither_read_nor_make_turns_of_other_teams(guarded: Guarded) -> None:
    ways = set(of_others())
    async with trying(guarded.access(FLEET), FLEET) as trier:
        assert await trier.publish(*ways) == ways
        claims = f"pallas.v1.live.{TURN_CLAIM.template.filter(team=ALPHA).removeprefix('pallas.v1.')}"
        assert await trier.subscribe(claims) == {claims}


async def test_the_fleet_reads_its_own_buckets_directly(guarded: Guarded) -> None:
    ways = {f"$JS.API.DIRECT.GET.KV_{bucket.name}" for bucket in (FLEET_AGENTS, FLEET_TASKS)}
    async with trying(guarded.access(FLEET), FLEET) as trier:
        assert await trier.publish(*ways) == set()
    for user, service in ((PIPELINES, PIPELINES), (POOL, POOL), (worker(ALPHA), "agent-worker")):
        async with trying(guarded.access(user), service) as trier:
            assert await trier.publish(*ways) == ways


async def test_nobody_else_can_use_the_queues_of_the_fleet(guarded: Guarded) -> None:
    name = f"{FLEET_TEAM}__{FLEET_TASKS_AGENT}"
    ways = {f"$JS.API.CONSUMER.{verb}.TURN_QUEUE.{name}" for verb in ("MSG.NEXT", "DELETE")}
    ways |= {f"$JS.ACK.TURN_QUEUE.{name}.1.1.1.1.1", bucket_subject(AGENTS, f"{FLEET_TEAM}.{FLEET_TASKS_AGENT}")}
    for user, service in ((POOL, POOL), (worker(ALPHA), "agent-worker")):
        async with trying(guarded.access(user), service) as trier:
            assert await trier.publish(*ways) == ways
