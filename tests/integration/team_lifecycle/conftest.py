"""Postgres and Redis of this run, and a service of each test: with a database and a broker of its own.

Numbers of changes begin anew in every database, so two of them cannot share a broker's stream.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator

import pytest
from tests.embedded import NatsServer, RedisServer
from tests.integration.team_lifecycle.lab import Lifecycle, a_lifecycle
from tests.integration.team_lifecycle.losing import Losing
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
    engine = open_engine(f"{server.url.rpartition('/')[0]}/model", pool=1, service="tests")
    await MIGRATIONS.run(engine)
    await engine.dispose()


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """A Redis of this test alone."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def cache(redis: RedisServer) -> AsyncGenerator[Losing]:
    """A cache to lose."""
    async with open_cache(redis.url) as cache:
        yield Losing(cache)


@pytest.fixture
async def addresses(postgres: PostgresServer, redis: RedisServer, nats_server: NatsServer) -> dict[str, str]:
    """What a service is told: a database without rows, Redis, the broker."""
    return {
        "postgres_url": await postgres.new_database(like="model"),
        "redis_url": redis.url,
        "nats_url": nats_server.url,
    }


@pytest.fixture
async def lifecycle(addresses: dict[str, str]) -> AsyncGenerator[Lifecycle]:
    """A service at work."""
    async with a_lifecycle(**addresses) as lifecycle:
        yield lifecycle
