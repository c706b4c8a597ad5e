"""Events and a slow broker: the position is stored before Postgres ends the idle transaction."""

import asyncio
from functools import partial

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.real_parts import until
from tests.link import linked
from tests.postgres import PostgresServer

from pallas_contracts.message import utc_now
from pallas_outbox.relay import Relay
from pallas_postgres.engine import open_engine
from team_lifecycle.changes.make_changes import OUTBOX
from team_lifecycle.tables import Change

EVENTS = 15


async def test_events_are_sent_when_a_batch_exceeds_the_idle_transaction_timeout(
    postgres: PostgresServer, nats_server: NatsServer, bus: Connecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pallas_outbox.relay.BATCH_SECONDS", 0.3)
    database = await postgres.new_database(like="model")
    idle = {"idle_in_transaction_session_timeout": "1s"}
    engine = open_engine(database, pool=2, service="tests", options=idle)
    make = partial(Change, kind="user", action="created", actor="test", correlation="x", data={}, at=utc_now())
    async with AsyncSession(engine) as session, session.begin():
        session.add_all(make(number=number, subject=f"u{number}") for number in range(1, EVENTS + 1))
    async with linked(nats_server.url) as link:
        slow = await bus("team-lifecycle", url=link.url)
        link.delay = 0.1
        relaying = asyncio.create_task(Relay(slow, engine, OUTBOX, asyncio.Event(), 1).run())

        async def all_sent() -> bool:
            return await postgres.say("select sent from relay_position", database) == [(EVENTS,)]

        try:
            await until(all_sent, within=20)
        finally:
            link.delay = 0.0
            relaying.cancel()
            await asyncio.wait({relaying})
    await engine.dispose()
