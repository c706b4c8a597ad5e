"""Changes are committed with their events and the teams they wake, and their events reach the broker in order."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.real_parts import until
from tests.integration.workspaces.lab import Lab, a_hub, a_workspaces
from tests.postgres import PostgresServer

from pallas_bus.reads import read
from pallas_contracts.catalog import WORKSPACE_CHANGED, WORKSPACE_CHANGES
from pallas_contracts.changes import WorkspaceChanged
from pallas_contracts.errors import Conflict
from workspaces.changes.make import Changes, Decide, Decision, Event, Wake
from workspaces.live.hub import WORK, Live
from workspaces.metrics import make_metrics
from workspaces.model import Who
from workspaces.tables import Workspace

WHO = Who("admin", "req-1")


def a_workspace(name: str, *wakes: Wake) -> Decide[str]:
    """Makes a workspace, of which instances are told."""

    async def decide(session: AsyncSession) -> Decision[str]:
        session.add(Workspace(id=name, name=name))
        return Decision(name, (Event("workspace", "created", name, {"name": name}),), wakes)

    return decide


@pytest.fixture
async def two(database: str) -> AsyncGenerator[tuple[Lab, Lab]]:
    """Two replicas of the service."""
    async with a_workspaces(postgres_url=database) as one, a_workspaces(postgres_url=database) as other:
        yield one, other


async def test_numbers_have_no_gap_over_all_replicas(
    two: tuple[Lab, Lab], postgres: PostgresServer, database: str
) -> None:
    async def refuse(session: AsyncSession) -> Decision[None]:
        session.add(Workspace(id="refused", name="refused"))
        await session.flush()
        raise Conflict("no")

    async def make(number: int) -> None:
        changes = two[number % 2].service.parts.changes
        if number % 5 == 0:
            with pytest.raises(Conflict):
                await changes.make(WHO, refuse)
        else:
            assert await changes.make(WHO, a_workspace(f"ws{number}")) == f"ws{number}"

    await asyncio.gather(*(make(number) for number in range(40)))
    numbers = await postgres.say("select number from changes order by number", database)
    assert numbers == [(number,) for number in range(1, 33)]
    assert await postgres.say("select count(*) from workspaces where id = 'refused'", database) == [(0,)]


async def test_several_changes_wake_a_team_once_and_every_replica_hears_of_it(
    engine: AsyncEngine, postgres: PostgresServer, database: str
) -> None:
    changes = Changes(engine, make_metrics(CollectorRegistry()), asyncio.Event())
    async with (
        a_hub(database) as one,
        a_hub(database) as other,
        one.subscribe(WORK) as here,
        other.subscribe(WORK) as there,
    ):
        await changes.make(WHO, a_workspace("a", Wake("i"), Wake("j"), Wake("i", revokes=True)))
        for items in (here, there):
            async with asyncio.timeout(10):
                assert await anext(items) == Live(WORK, "teams", {})
        await postgres.say("update mnemosyne_teams set tries = 3, due_at = now() + interval '1 hour'", database)
        await changes.make(Who("admin", "req-2"), a_workspace("b", Wake("i")))
    found = await postgres.say(
        "select id, revokes, version, correlation, tries, due_at <= now() from mnemosyne_teams order by 1", database
    )
    assert found == [("i", True, 2, "req-2", 0, True), ("j", False, 1, "req-1", 3, False)]


async def test_events_reach_the_broker_in_order_also_those_from_while_it_was_away(
    database: str, nats_server: NatsServer, bus: Connecting
) -> None:
    async with a_workspaces(postgres_url=database, nats_url=nats_server.url) as lab:
        make = lab.service.parts.changes.make
        await make(WHO, a_workspace("a"))
        listener = await bus("cli", url=nats_server.url)
        events: list[WorkspaceChanged] = []

        async def all_there() -> bool:
            events.clear()
            async for record in read(listener, WORKSPACE_CHANGES.name, WORKSPACE_CHANGED.template.filter()):
                events.append(WorkspaceChanged.model_validate_json(record.data))
            return len(events) == wanted

        wanted = 1
        await until(all_there)
        assert (await lab.browser.get("/api/v1/session")).json()["turns"] is True
        await asyncio.to_thread(nats_server.stop)
        for name in ("b", "c"):
            await make(WHO, a_workspace(name))
        await asyncio.to_thread(nats_server.start)
        wanted = 3
        await until(all_there)
    assert [(event.number, event.id) for event in events] == [(1, "a"), (2, "b"), (3, "c")]
    assert events[0].correlation == "req-1"
    assert (events[0].kind, events[0].action, events[0].actor) == ("workspace", "created", "admin")


async def test_the_service_is_ready_without_a_broker(lab: Lab) -> None:
    assert (await lab.stranger.get("/readyz")).status_code == 200
    assert (await lab.browser.get("/api/v1/session")).json()["turns"] is False
