"""What the console does on a broker with rights for each service is not denied, and what it must not do is."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.builders import turn_requested
from tests.integration.broker.guarded import ALPHA, Guarded, start, trying, worker
from tests.integration.real_parts import OWNED, a_worker, until
from tests.postgres import PostgresServer
from tests.waiting import soon

from pallas_bus.connection import Bus, connect
from pallas_bus.streams import bucket_subject, declare
from pallas_contracts.catalog import AGENTS, GATEWAY, TURN_CONTENT, TURN_EVENT, TURN_OUTCOME, WORKSPACES
from pallas_contracts.turns import TurnRequested
from pallas_postgres.engine import open_engine
from pallas_turns.claims import TurnRef, stored_outcome
from pallas_turns.content import offload_request
from pallas_turns.history.turn_list import TurnFilter
from pallas_turns.queue import submit
from workspaces.migrate import MIGRATIONS
from workspaces.model import Who
from workspaces.turns.again import Again
from workspaces.turns.broker import Broker
from workspaces.turns.live import LiveTurns
from workspaces.turns.log import TurnLog

LARGE = "x" * 400_000


@pytest.fixture
async def engine(postgres: PostgresServer) -> AsyncGenerator[AsyncEngine]:
    """An empty database with the tables."""
    engine = open_engine(await postgres.new_database(), pool=2, service="tests")
    await MIGRATIONS.run(engine)
    yield engine
    await engine.dispose()


async def _ended(bus: Bus, turn: TurnRequested) -> None:
    async def over() -> bool:
        return await stored_outcome(bus, TurnRef.of(turn)) is not None

    await until(over)


async def test_the_console_reads_follows_and_repeats_turns_of_every_team(tmp_path: Path, engine: AsyncEngine) -> None:
    guarded = start(tmp_path)
    try:
        async with AsyncExitStack() as stack:
            gateway = await stack.enter_async_context(connect(guarded.access(GATEWAY), GATEWAY))
            await declare(gateway, *OWNED)
            seed = guarded.seed(worker(ALPHA))
            await stack.enter_async_context(a_worker(guarded.server.url, guarded.teams[ALPHA], nats_seed=seed))
            own = await stack.enter_async_context(connect(guarded.access(WORKSPACES), WORKSPACES))
            broker = Broker()
            stack.enter_context(broker.using(own))
            await _use(guarded, gateway, broker, engine)
        assert guarded.violations == []
    finally:
        guarded.server.close()


async def _use(guarded: Guarded, gateway: Bus, broker: Broker, engine: AsyncEngine) -> None:
    log, again, live = TurnLog(broker, engine), Again(broker), LiveTurns(broker)
    request = turn_requested(ALPHA, "bench", tool="say", arguments={"text": LARGE})
    async with live.follow(TurnFilter(caller="peer"), asyncio.Event()) as lines:
        await submit(gateway, await offload_request(gateway, request))
        line = await soon(anext(lines))
        assert line is not None
        assert line.id == request.turn_id
    await _ended(gateway, request)
    assert {"bench", "once"} <= {it.agent for it in (await again.models()).agents}
    new = await again.execute(Who("admin", "c1"), request.turn_id, model=None, agent=None, confirmed=False)
    repeated = TurnRequested.model_validate({**request.model_dump(), "turn_id": new.turn_id})
    await _ended(gateway, repeated)
    both = await log.compare(request.turn_id, new.turn_id)
    assert both.equal is True
    page = await log.page(TurnFilter(team=ALPHA), limit=10)
    assert [each.id for each in page.turns] == [new.turn_id, request.turn_id]
    waits = turn_requested("beta", "bench")
    await submit(gateway, waits)
    assert (await log.show(waits.turn_id, content=True)).turn.state == "waiting"


async def test_the_console_may_not_speak_for_workers(tmp_path: Path) -> None:
    guarded = start(tmp_path)
    try:
        async with trying(guarded.access(WORKSPACES), WORKSPACES) as trier:
            ids = {"team": ALPHA, "agent": "bench", "turn": "t1"}
            subjects = {it.template.subject(**ids) for it in (TURN_EVENT, TURN_CONTENT, TURN_OUTCOME)}
            subjects |= {bucket_subject(AGENTS, f"{ALPHA}.bench"), "$JS.API.STREAM.DELETE.TURN_LOG"}
            assert await trier.publish(*subjects) == subjects
    finally:
        guarded.server.close()
