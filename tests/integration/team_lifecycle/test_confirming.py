"""A change of who may read what, when Redis fails at each step of it."""

import uuid
from collections.abc import AsyncGenerator
from functools import partial

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.embedded import RedisServer
from tests.integration.team_lifecycle.failing_cache import FailingCache, fill_with_old_rows, truth
from tests.postgres import PostgresServer

from pallas_contracts.auth import Record, TeamRecord
from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import open_engine
from team_lifecycle.changes.make_changes import Changes
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
def changes(engine: AsyncEngine, cache: FailingCache, monkeypatch: pytest.MonkeyPatch) -> Changes:
    """Changes over that cache."""
    monkeypatch.setattr("team_lifecycle.changes.make_changes.CONFIRM_PAUSE", 0.001)
    return Changes(engine, cache, make_metrics(CollectorRegistry()), lambda: None)


delete = partial(teams.delete_team, team_id=TEAM)


async def is_active(engine: AsyncEngine) -> bool:
    record = (await truth(engine, team_key(TEAM))).records[team_key(TEAM)]
    assert isinstance(record, TeamRecord)
    return record.active


async def cached(cache: FailingCache) -> Record | None:
    """The cached row. Fails if it is missing."""
    return (await cache.inner.read([team_key(TEAM)])).records[team_key(TEAM)]


async def test_nothing_is_changed_when_the_look_ups_cannot_be_invalidated(
    changes: Changes, cache: FailingCache, engine: AsyncEngine
) -> None:
    cache.invalidates = [False]
    with pytest.raises(Unavailable):
        await changes.make(WHO, delete)
    assert await is_active(engine)
    assert (await truth(engine, team_key(TEAM))).version == 0


async def test_a_change_is_not_committed_when_its_tombstones_have_expired(
    changes: Changes, cache: FailingCache, engine: AsyncEngine
) -> None:
    cache.short = True
    with pytest.raises(Unavailable, match="too long"):
        await changes.make(WHO, delete)
    assert await is_active(engine)


async def test_a_failed_refresh_is_replaced_by_an_invalidation_even_after_redis_lost_its_data(
    changes: Changes, cache: FailingCache, redis: RedisServer, engine: AsyncEngine
) -> None:
    before = await truth(engine, team_key(TEAM))

    cache.lost, cache.refreshes = partial(fill_with_old_rows, cache, redis, before), [False]
    await changes.make(WHO, delete)
    assert team_key(TEAM) in (await cache.inner.read([team_key(TEAM)])).missing
    assert not await is_active(engine)


async def test_repeating_an_unconfirmed_change_confirms_it_without_another_event(
    changes: Changes, cache: FailingCache, engine: AsyncEngine
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
    assert (await truth(engine, team_key(TEAM))).version == 1, "the repetition made no further event"
