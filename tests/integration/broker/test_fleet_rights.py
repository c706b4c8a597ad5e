"""What the fleet does on a broker with rights for each service is not denied, and what it must not do is."""

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.broker.guarded import ALPHA, Guarded, start, trying, worker
from tests.integration.real_parts import a_gateway, a_process, until
from tests.waiting import soon

from fleet.app import FleetService, build
from fleet.settings import FleetSettings
from pallas_bus.history.turns import read_turn
from pallas_bus.transport.connection import connect
from pallas_bus.transport.streams import bucket_subject
from pallas_contracts.catalog import (
    AGENTS,
    CLI,
    DATA_TEAM,
    FLEET,
    FLEET_AGENT,
    FLEET_AGENTS,
    FLEET_TASKS,
    FLEET_TASKS_AGENT,
    FLEET_TEAM,
    GATEWAY,
    PIPELINES,
    POOL,
    TURN_CLAIM,
    TURN_OUTCOME,
    TURN_REQUESTED,
)
from pallas_demo.coder import CoderStandIn, StandInSettings


@pytest.fixture
def alone(tmp_path: Path) -> Generator[Guarded]:
    """A broker for this test alone."""
    guarded = start(tmp_path)
    yield guarded
    guarded.server.close()


@asynccontextmanager
async def the_service(guarded: Guarded, coder: CoderStandIn) -> AsyncGenerator[FleetService]:
    """A fleet, as its process builds it."""
    given = {
        "PALLAS_NATS_URL": guarded.server.url,
        "PALLAS_NATS_SEED": guarded.seed(FLEET),
        "PALLAS_CODER_URL": coder.url,
        "PALLAS_CODER_TOKEN": coder.token,
    }
    async with build(FleetSettings.from_env(given), a_process(FLEET)) as service:
        yield service


async def test_a_task_from_its_start_to_its_history_needs_no_other_rights(alone: Guarded) -> None:
    agent, large = {"agent_name": "papi"}, "x" * 200_000 + "; work 30 s"
    async with (
        CoderStandIn(StandInSettings(build_seconds=0.05)) as coder,
        a_gateway(alone.server.url, nats_seed=alone.seed(GATEWAY)) as front,
        connect(alone.access(CLI), CLI) as people,
        the_service(alone, coder),
        front.client(FLEET_TEAM, FLEET_AGENT) as client,
    ):

        async def ask(tool: str, **arguments: str) -> dict[str, object]:
            answer = await soon(client.call_tool(tool, arguments), 60)
            assert not answer.is_error, answer.content
            assert answer.structured_content is not None
            return answer.structured_content

        await ask("create_agent", name="papi", project="Setup", spec="say ready")

        async def idle() -> bool:
            return (await ask("list_agents"))["agents"] == [{"name": "papi", "status": "idle", "current_task": None}]

        await until(idle, 30)
        started = await ask("start_agent_task", task_description=f"say {large}", **agent)
        stopped = await ask("stop_agent_task", **agent)
        assert isinstance(started["task"], dict)
        assert isinstance(stopped["task"], dict)
        assert (stopped["task"]["id"], stopped["task"]["status"]) == (started["task"]["id"], "stopped")
        turn = await read_turn(people, str(started["task"]["id"]).replace("-", ""))
        assert turn is not None
        assert turn.state == "cancelled"
        assert (await ask("show_agent_task_history", **agent))["total_count"] == 2
        await ask("delete_agent", **agent)
    assert alone.violations == []


def of_others() -> Iterator[str]:
    """What only those who execute or make turns of other teams may do, and what other services own."""
    for team in (ALPHA, DATA_TEAM):
        yield bucket_subject(AGENTS, f"{team}.bench")
        yield TURN_REQUESTED.template.subject(team=team, agent="bench", caller="x")
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
