"""A change that was committed but not confirmed is confirmed before any other change is made.

In each case Redis loses its data after the invalidation, and an earlier reader fills the cache with the old rows.
Then the change is committed, and the cache stays unreachable.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.embedded import RedisServer
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.failing_cache import FailingCache, fill_with_old_rows, truth
from tests.integration.team_lifecycle.lab import CONTENT, FERNET_KEY, HISTORY
from tests.postgres import PostgresServer
from tests.waiting import eventually

from pallas_contracts.auth import LookupKey
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.opaque import token_digest
from pallas_postgres.engine import open_engine, reading
from team_lifecycle.changes.make_changes import Changes
from team_lifecycle.handlers import keys, libraries, memberships, teams, tokens, users
from team_lifecycle.handlers.keys import Seal
from team_lifecycle.metrics import make_metrics
from team_lifecycle.model import Decision, Who, signing_key, team_key, token_key
from team_lifecycle.tables import PendingInvalidation

WHO = Who("test", "a correlation")
SEAL = Seal([FERNET_KEY])
TEAM, OTHER_TEAM, NEW_TEAM = (f"00000000-0000-4000-8000-00000000000{number}" for number in range(3))


class Killed(BaseException):
    """The process is killed here."""


class World:
    """A team and another one in workspaces `ws` and `other`, a library `lib` in `ws`, a token of `max` for it."""

    token_id = ""
    digest = ""
    kid = ""

    async def make(self, changes: Changes) -> None:
        """Create everything."""
        await changes.make(WHO, partial(keys.ensure_current_key, algorithm="HS256", seal=SEAL))
        for team_id, workspace in ((TEAM, "ws"), (OTHER_TEAM, "other")):
            await changes.make(WHO, partial(teams.create_team, team_id=team_id, name="Kottos", seal=SEAL))
            await changes.make(WHO, partial(teams.replace_workspaces, team_id=team_id, workspace_ids=[workspace]))
        await changes.make(WHO, partial(users.create_user, name="max"))
        await changes.make(WHO, a_library("lib", "ws"))
        await changes.make(WHO, partial(memberships.grant_role, who=WHO, library_uid="lib", user="max", role="manager"))
        a_token = partial(tokens.create_token, who=WHO, user="max", name="x", libraries=["lib"], expires_at=None)
        made = await changes.make(WHO, a_token)
        self.token_id, self.digest = made.id, token_digest(made.token)
        a_key = partial(keys.add_key, purpose="turn", algorithm="HS256", current=False, seal=SEAL)
        self.kid = (await changes.make(WHO, a_key)).kid


type Decide = Callable[[AsyncSession], Awaitable[Decision[Any]]]
type Case = Callable[[World], tuple[Decide, LookupKey]]


def a_library(uid: str, workspace: str | None) -> Decide:
    return partial(libraries.create_library, who=WHO, uid=uid, name=uid, workspace_id=workspace, owner=None)


def token_case(decide: Callable[..., Awaitable[Decision[Any]]], **given: Any) -> Case:
    return lambda world: (partial(decide, who=WHO, token_id=world.token_id, **given), token_key(world.digest))


CASES: dict[str, Case] = {
    "create_team": lambda _: (
        partial(teams.create_team, team_id=NEW_TEAM, name="New", seal=SEAL),
        team_key(NEW_TEAM),
    ),
    "delete_team": lambda _: (partial(teams.delete_team, team_id=TEAM), team_key(TEAM)),
    "rename_team": lambda _: (partial(teams.rename_team, team_id=TEAM, name="New"), team_key(TEAM)),
    "rotate_team": lambda _: (partial(teams.rotate_team, team_id=TEAM, seal=SEAL), team_key(TEAM)),
    "replace_workspaces": lambda _: (
        partial(teams.replace_workspaces, team_id=TEAM, workspace_ids=[]),
        team_key(TEAM),
    ),
    "create_library": lambda _: (a_library("new", "ws"), team_key(TEAM)),
    "move_library": lambda _: (
        partial(libraries.move_library, who=WHO, uid="lib", workspace_id="other"),
        team_key(TEAM),
    ),
    "delete_library": lambda world: (
        partial(libraries.delete_library, who=WHO, uid="lib"),
        token_key(world.digest),
    ),
    "revoke_role": lambda world: (
        partial(memberships.revoke_role, who=WHO, library_uid="lib", user="max", role="manager"),
        token_key(world.digest),
    ),
    "replace_libraries": token_case(tokens.replace_libraries, libraries=[]),
    "revoke_token": token_case(tokens.revoke_token),
    "set_user_active": lambda world: (
        partial(users.set_user_active, name="max", active=False),
        token_key(world.digest),
    ),
    "retire_key": lambda world: (partial(keys.retire_key, kid=world.kid), signing_key(world.kid)),
    "reseal_keys": lambda world: (partial(keys.reseal_keys, seal=SEAL), signing_key(world.kid)),
}
UNSEEN = {
    "rename_library",
    "grant_role",
    "create_token",
    "create_user",
    "add_key",
    "make_current",
    "ensure_current_key",
}
"""Handlers that change no look-up."""


def test_every_handler_has_a_case() -> None:
    modules = keys, libraries, memberships, teams, tokens, users
    found = [member for module in modules for member in inspect.getmembers(module, inspect.iscoroutinefunction)]
    handlers = {name for name, function in found if "Decision[" in str(inspect.signature(function).return_annotation)}
    assert handlers == set(CASES) | UNSEEN


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """The Redis of this module. Each test makes it lose its data."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module")
async def database(postgres: PostgresServer) -> str:
    """The database of this module."""
    return await postgres.new_database(like="model")


@pytest.fixture
async def engine(postgres: PostgresServer, database: str, redis: RedisServer) -> AsyncGenerator[AsyncEngine]:
    """A database without rows, and a Redis without look-ups."""
    await postgres.empty(database, *CONTENT, *HISTORY)
    redis.say("FLUSHALL")
    engine = open_engine(database, pool=5, service="tests")
    yield engine
    await engine.dispose()


@pytest.fixture(autouse=True)
def poll_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry and poll at once."""
    monkeypatch.setattr("team_lifecycle.changes.make_changes.CONFIRM_PAUSE", 0.001)
    monkeypatch.setattr("team_lifecycle.changes.make_changes.POLL_SECONDS", 0.01)


def a_replica(engine: AsyncEngine, cache: FailingCache) -> Changes:
    return Changes(engine, cache, make_metrics(CollectorRegistry()), lambda: None)


async def make_unconfirmed(
    changes: Changes, engine: AsyncEngine, cache: FailingCache, redis: RedisServer, case: tuple[Decide, LookupKey]
) -> None:
    """Commit the change, but do not confirm it. The cache has the old rows, and is unreachable from then on."""
    decide, key = case
    before = await truth(engine, key)
    cache.lost, cache.refreshes, cache.invalidates = (
        partial(fill_with_old_rows, cache, redis, before),
        [False],
        [True, *[False] * 5],
    )
    with pytest.raises(Unavailable, match="send it again"):
        await changes.make(WHO, decide)
    assert (await truth(engine, key)).records != before.records, "the change was committed"
    assert (await cache.inner.read([key])).records == before.records, "the cache has the old row"
    cache.away = True


async def cache_is_never_wrong(engine: AsyncEngine, cache: FailingCache, key: LookupKey) -> bool:
    """Whether the cache has the row of Postgres, or none."""
    snapshot = await cache.inner.read([key])
    return not snapshot.has(key) or snapshot.record(key) == (await truth(engine, key)).records[key]


async def nothing_is_pending(engine: AsyncEngine) -> bool:
    async with reading(engine) as session:
        return await session.scalar(select(PendingInvalidation)) is None


@asynccontextmanager
async def polling(changes: Changes) -> AsyncGenerator[None]:
    """A replica that polls for pending invalidations."""
    task = asyncio.create_task(changes.process_pending())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("where", ["the same replica", "another replica"])
async def test_repeating_an_unconfirmed_change_confirms_it_on_any_replica(
    engine: AsyncEngine, cache: FailingCache, redis: RedisServer, name: str, where: str
) -> None:
    changes, world = a_replica(engine, cache), World()
    await world.make(changes)
    decide, key = CASES[name](world)
    await make_unconfirmed(changes, engine, cache, redis, (decide, key))
    again = changes if where == "the same replica" else a_replica(engine, cache)
    with pytest.raises(Unavailable):
        await again.make(WHO, decide)
    cache.away = False
    with suppress(PallasError):  # a repeated deletion finds nothing
        await again.make(WHO, decide)
    assert await cache_is_never_wrong(engine, cache, key)


async def test_changes_are_refused_while_an_earlier_one_cannot_be_confirmed(
    engine: AsyncEngine, cache: FailingCache, redis: RedisServer
) -> None:
    changes, world = a_replica(engine, cache), World()
    await world.make(changes)
    await make_unconfirmed(changes, engine, cache, redis, CASES["delete_library"](world))
    refused = partial(libraries.delete_library, who=WHO, uid="nothing")
    others: list[Decide] = [partial(users.create_user, name=name) for name in ("ann", "max")]
    for decide in (*others, refused):
        for replica in (changes, a_replica(engine, cache)):
            with pytest.raises(Unavailable):
                await replica.make(WHO, decide)
    await changes.make(WHO, partial(keys.ensure_current_key, algorithm="HS256", seal=SEAL), alone=True)
    cache.away = False
    await changes.make(WHO, partial(users.create_user, name="ann"))
    assert await cache_is_never_wrong(engine, cache, token_key(world.digest))
    assert (await cache.inner.read([token_key(world.digest)])).missing == (), "the next change has refreshed it"


@pytest.mark.parametrize("name", ["move_library", "delete_library", "revoke_role"])
async def test_another_replica_completes_the_invalidations_of_one_killed_after_its_commit(
    engine: AsyncEngine, cache: FailingCache, redis: RedisServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("team_lifecycle.changes.pending.GRACE_SECONDS", 0.0)
    changes, world = a_replica(engine, cache), World()
    await world.make(changes)
    decide, key = CASES[name](world)
    before = await truth(engine, key)

    async def killed() -> None:
        await fill_with_old_rows(cache, redis, before)
        raise Killed

    cache.lost, cache.refreshes = killed, [False]
    with pytest.raises(Killed):
        await changes.make(WHO, decide)
    assert not await cache_is_never_wrong(engine, cache, key)
    cache.away, asked = True, cache.asked
    async with polling(a_replica(engine, cache)):
        await eventually(lambda: cache.asked > asked + 1)
        assert not await cache_is_never_wrong(engine, cache, key)
        cache.away = False
        await until(partial(nothing_is_pending, engine))
    assert await cache_is_never_wrong(engine, cache, key)


async def test_completed_invalidations_are_deleted_and_not_repeated(engine: AsyncEngine, cache: FailingCache) -> None:
    changes = a_replica(engine, cache)
    await World().make(changes)
    assert await nothing_is_pending(engine), "a change that affects no look-up deletes completed invalidations"
    await changes.make(WHO, partial(teams.delete_team, team_id=TEAM))
    assert not await nothing_is_pending(engine)
    asked = cache.asked
    async with polling(changes):
        await until(partial(nothing_is_pending, engine))
    assert cache.asked == asked
