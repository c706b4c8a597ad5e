"""A Postgres for the whole run, and for each module a service with its own database, Redis and broker.

Each test gets the module's service without teams, users, libraries and tokens. Changes, events and signing keys stay:
a test that counts them, and one that stops a server, has a service of its own.

Change numbers start at 1 in every database, so two databases cannot share a stream.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator

import pytest
from tests.embedded import NatsServer, RedisServer
from tests.integration.team_lifecycle.failing_cache import FailingCache
from tests.integration.team_lifecycle.lab import CONTENT, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer

from pallas_lookups.cache import open_cache
from pallas_postgres.engine import open_engine
from team_lifecycle.migrate import MIGRATIONS


@pytest.fixture(scope="session")
def postgres(postgres: PostgresServer) -> PostgresServer:
    """The shared Postgres. Its database `model` has the tables."""
    asyncio.run(_make_model(postgres))
    return postgres


async def _make_model(server: PostgresServer) -> None:
    await server.say("create database model")
    engine = open_engine(server.database("model"), pool=1, service="tests")
    await MIGRATIONS.run(engine)
    await engine.dispose()


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """A Redis of this test alone."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def cache(redis: RedisServer) -> AsyncGenerator[FailingCache]:
    """A cache that fails on demand."""
    async with open_cache(redis.url) as cache:
        yield FailingCache(cache)


@pytest.fixture
async def addresses(postgres: PostgresServer, redis: RedisServer, nats_server: NatsServer) -> dict[str, str]:
    """The addresses that a service needs: of an empty database, Redis and the broker."""
    return {
        "postgres_url": await postgres.new_database(like="model"),
        "redis_url": redis.url,
        "nats_url": nats_server.url,
    }


@pytest.fixture(scope="module")
async def module_lifecycle(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Lifecycle]:
    """A running service, as the tests before have left it."""
    database = await postgres.new_database(like="model")
    with NatsServer() as nats, RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        async with a_lifecycle(postgres_url=database, redis_url=redis.url, nats_url=nats.url) as lifecycle:
            yield lifecycle


@pytest.fixture
async def lifecycle(module_lifecycle: Lifecycle, postgres: PostgresServer) -> Lifecycle:
    """The module's service, emptied."""
    await postgres.empty(module_lifecycle.settings["postgres_url"], *CONTENT)
    return module_lifecycle


@pytest.fixture
async def own_lifecycle(addresses: dict[str, str]) -> AsyncGenerator[Lifecycle]:
    """A service of this test alone, at `addresses`."""
    async with a_lifecycle(**addresses) as lifecycle:
        yield lifecycle
