"""A change and its cache: what happens when Redis is lost at each step of the change."""

import uuid
from collections.abc import AsyncGenerator
from functools import partial

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.embedded import RedisServer
from tests.integration.team_lifecycle.losing import Losing, forget, truth
from tests.postgres import PostgresServer

from pallas_contracts.auth import Record, TeamRecord
from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import open_engine
from team_lifecycle.changes import Changes
from team_lifecycle.handlers import teams
from team_lifecycle.metrics import make_metrics
from team_lifecycle.model import Who, team_key
from team_lifecycle.tables import Team

WHO = Who("test", "a correlation")
TEAM = str(uuid.uuid4())


@pytest.fixture
async def engine(postgres: PostgresServer) -> AsyncGenerator[AsyncEngine]:
    """A database with one active team."""
    engine = open_engine(await postgres.new_database(like="model"), pool=3, service="tests")
    async with AsyncSession(engine) as session, session.begin():
        session.add(Team(id=TEAM, name="Kottos", active=True))
    yield engine
    await engine.dispose()


@pytest.fixture
def changes(engine: AsyncEngine, cache: Losing, monkeypatch: pytest.MonkeyPatch) -> Changes:
    """Changes over that cache."""
    monkeypatch.setattr("team_lifecycle.changes.CONFIRM_PAUSE", 0.001)
    return Changes(engine, cache, make_metrics(CollectorRegistry()), lambda: None)


delete = partial(teams.delete_team, team_id=TEAM)


async def is_active(engine: AsyncEngine) -> bool:
    record = (await truth(engine, team_key(TEAM))).records[team_key(TEAM)]
    assert isinstance(record, TeamRecord)
    return record.active


async def cached(cache: Losing) -> Record | None:
    """The cached row. Fails if it is missing."""
    return (await cache.inner.read([team_key(TEAM)])).records[team_key(TEAM)]


async def test_nothing_is_changed_when_the_look_ups_cannot_be_invalidated(
    changes: Changes, cache: Losing, engine: AsyncEngine
) -> None:
    cache.invalidates = [False]
    with pytest.raises(Unavailable):
        await changes.make(WHO, delete)
    assert await is_active(engine)
    assert (await truth(engine, team_key(TEAM))).version == 0


async def test_tombstones_without_time_left_stop_the_commit(
    changes: Changes, cache: Losing, engine: AsyncEngine
) -> None:
    cache.short = True
    with pytest.raises(Unavailable, match="too long"):
        await changes.make(WHO, delete)
    assert await is_active(engine)


async def test_a_failed_refresh_becomes_an_invalidation_even_in_a_redis_that_has_lost_everything(
    changes: Changes, cache: Losing, redis: RedisServer, engine: AsyncEngine
) -> None:
    before = await truth(engine, team_key(TEAM))

    cache.lost, cache.refreshes = partial(forget, cache, redis, before), [False]
    await changes.make(WHO, delete)
    assert team_key(TEAM) in (await cache.inner.read([team_key(TEAM)])).missing
    assert not await is_active(engine)


async def test_a_change_that_cannot_be_confirmed_is_confirmed_by_sending_it_again(
    changes: Changes, cache: Losing, engine: AsyncEngine
) -> None:
    before, snapshot = await truth(engine, team_key(TEAM)), await cache.inner.read([team_key(TEAM)])
    await cache.inner.fill(snapshot, before.version, before.records)
    cache.invalidates, cache.refreshes = [True, *[False] * 5], [False]
    with pytest.raises(Unavailable, match="send it again"):
        await changes.make(WHO, delete)
    assert not await is_active(engine), "the change was committed"
    cache.invalidates = [False]
    with pytest.raises(Unavailable):
        await changes.make(WHO, delete)
    await changes.make(WHO, delete)
    record = await cached(cache)
    assert isinstance(record, TeamRecord)
    assert record.active is False
    assert (await truth(engine, team_key(TEAM))).version == 1, "repeating it is no further event"
