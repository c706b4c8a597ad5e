"""What pipelines does on a broker with rights for each service is not denied, and what it must not do is."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.integration.broker.guarded import ALPHA, BETA, Guarded, start, trying, worker
from tests.integration.real_parts import a_gateway, a_process, a_worker, until
from tests.waiting import soon

from pallas_bus.connection import connect
from pallas_bus.streams import bucket_subject
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import (
    AGENTS,
    CLI,
    CONSTELLATION,
    DATA_TEAM,
    GATEWAY,
    PIPELINES,
    PIPELINES_TEAM,
    PUBLISHED,
    STREAMS,
    TURN_CONTENT,
    TURN_EVENT,
)
from pallas_contracts.ids import child_id, new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import ClientContext, Principal, TurnRequested
from pallas_turns.history.turns import read_turn
from pallas_turns.keys import call_child
from pallas_turns.model import Observer, TurnEnd
from pipelines.app import Pipelines, build
from pipelines.settings import PipelinesSettings

PARENT = new_turn_id()
LARGE = "x" * 400_000
PROGRAM = """
in message: { text: String }
said = alpha.bench.say(message) with cache: 1h, cache_backend: "shared"
out said
"""


class _Left(Observer):
    """A caller that waits until its turn is in the queue, and then leaves."""

    def __init__(self) -> None:
        self.followed = asyncio.Event()

    async def on_followed(self) -> None:
        self.followed.set()

    def caller_left(self) -> bool:
        return True


@pytest.fixture
def alone(tmp_path: Path) -> Generator[Guarded]:
    """A broker for this test alone."""
    guarded = start(tmp_path)
    yield guarded
    guarded.server.close()


@asynccontextmanager
async def the_service(guarded: Guarded) -> AsyncGenerator[Pipelines]:
    """Pipelines, as its process builds it."""
    given = {"PALLAS_NATS_URL": guarded.server.url, "PALLAS_NATS_SEED": guarded.seed(PIPELINES)}
    async with build(PipelinesSettings.from_env(given), a_process(PIPELINES)) as service:
        yield service


def a_child(team: str, place: str) -> TurnRequested:
    """A call of the bench of a team inside a turn, with arguments that are too big for the queue."""
    return TurnRequested(
        turn_id=child_id(PARENT, place),
        team=team,
        agent="bench",
        tool="say",
        arguments={"text": LARGE},
        principal=Principal(type="token", id="tok_alice"),
        parent=PARENT,
        depth=1,
        client=ClientContext(protocol_version="2026-07-28"),
        digest="a-digest",
        requested_at=utc_now(),
    )


async def test_pipelines_makes_and_cancels_turns_of_all_teams_and_executes_those_of_its_own(alone: Guarded) -> None:
    url = alone.server.url
    async with (
        a_gateway(url, nats_seed=alone.seed(GATEWAY)) as front,
        a_worker(url, alone.teams[ALPHA], nats_seed=alone.seed(worker(ALPHA))),
        connect(alone.access(CLI), CLI) as people,
        httpx.AsyncClient(trust_env=False) as http,
        the_service(alone) as service,
    ):
        calls, limits = service.engine.calls, Limits()
        end = await soon(call_child(calls, a_child(ALPHA, "1"), limits, Observer(), again=True), 30)
        assert isinstance(end, TurnEnd)
        assert end.outcome.status == "completed"

        caller, waiting = _Left(), a_child(BETA, "2")  # nobody executes the turns of beta
        call = asyncio.create_task(call_child(calls, waiting, limits, caller, again=False))
        await soon(caller.followed.wait())
        call.cancel()

        async def withdrawn() -> bool:
            turn = await read_turn(people, waiting.turn_id)
            return turn is not None and turn.state == "cancelled"

        await until(withdrawn)

        async def known() -> bool:
            there = await http.put(front.url(PIPELINES_TEAM, CONSTELLATION))
            return there.status_code == 405 and service.engine.catalogue.definition(ALPHA, "bench") is not None

        await until(known)
        async with front.client(PIPELINES_TEAM, CONSTELLATION) as client:
            for inputs, status in (({"message": {"text": LARGE}}, "completed"), ({}, "suspended")):
                answer = await soon(client.call_tool("execute", {"source": PROGRAM, "inputs": inputs}), 30)
                assert answer.structured_content is not None
                assert answer.structured_content["status"] == status
    assert alone.violations == []


def of_others() -> Iterator[str]:
    """What only those who execute another team's turns may do, and what only the owner of a stream may."""
    for team in (ALPHA, DATA_TEAM):
        yield bucket_subject(AGENTS, f"{team}.bench")
        yield from (contract.template.subject(team=team, agent="bench", turn="x") for contract in _OF_EXECUTORS)
        yield from (f"$JS.API.CONSUMER.{verb}.TURN_QUEUE.{team}__bench" for verb in ("MSG.NEXT", "DELETE", "CREATE"))
        wanted = f"pallas.v1.turn.requested.{team}.bench.*.*"
        names = (f"{team}__bench", f"{PIPELINES_TEAM}__{PUBLISHED}", "mine")
        yield from (f"$JS.API.CONSUMER.CREATE.TURN_QUEUE.{name}.{wanted}" for name in names)
    for stream in STREAMS:
        yield from (f"$JS.API.STREAM.{verb}.{stream.name}" for verb in ("DELETE", "UPDATE", "SNAPSHOT"))
        yield from (f"$JS.API.CONSUMER.{verb}.{stream.name}.mine" for verb in ("CREATE", "DURABLE.CREATE", "MSG.NEXT"))
    yield "$JS.API.CONSUMER.MSG.NEXT.TURN_LOG.content-expiry"
    yield from ("$JS.API.STREAM.PURGE.TURN_LOG", "$JS.API.STREAM.MSG.DELETE.TURN_LOG", "pallas.v1.pool.ask")
    yield from ("$KV.data_agents.feed", "$KV.gateways.front", "$KV.health.alpha.bench")


_OF_EXECUTORS = (TURN_EVENT, TURN_CONTENT)


async def test_pipelines_cannot_act_as_an_executor_of_another_team(guarded: Guarded) -> None:
    ways = set(of_others())
    async with trying(guarded.access(PIPELINES), PIPELINES) as trier:
        assert await trier.publish(*ways) == ways
        assert await trier.subscribe("pallas.v1.agent.read.alpha.bench") == {"pallas.v1.agent.read.alpha.bench"}


async def test_pipelines_gives_back_what_a_lost_worker_of_any_team_held(guarded: Guarded) -> None:
    held = {f"$JS.ACK.TURN_QUEUE.{team}__bench.1.1.1.1.1" for team in (ALPHA, DATA_TEAM)}
    async with trying(guarded.access(PIPELINES), PIPELINES) as trier:
        assert await trier.publish(*held) == set()


async def test_nobody_else_can_use_the_queues_of_pipelines(guarded: Guarded) -> None:
    name = f"{PIPELINES_TEAM}__{PUBLISHED}"
    ways = {f"$JS.API.CONSUMER.{verb}.TURN_QUEUE.{name}" for verb in ("MSG.NEXT", "DELETE")}
    ways |= {f"$JS.ACK.TURN_QUEUE.{name}.1.1.1.1.1", bucket_subject(AGENTS, f"{PIPELINES_TEAM}.{PUBLISHED}")}
    for user, service in (("data-pool", "data-pool"), (worker(ALPHA), "agent-worker")):
        async with trying(guarded.access(user), service) as trier:
            assert await trier.publish(*ways) == ways
