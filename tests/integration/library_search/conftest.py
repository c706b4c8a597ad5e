"""A Postgres for the whole run, and for each test a service with its own database and broker, except in `api`.

Change numbers start at 1 in every database, so two databases cannot share a stream.
"""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.library_search.lab import Search, StandIn, Truth, a_search, answering_for
from tests.integration.library_search.services import Services, running_services
from tests.postgres import PostgresServer

from library_search.migrate import MIGRATIONS
from pallas_contracts.catalog import LIFECYCLE, RESOLVER
from pallas_postgres.engine import open_engine


@pytest.fixture(scope="session")
def postgres(postgres: PostgresServer) -> PostgresServer:
    """The shared Postgres. Its database `library_model` has the tables."""
    asyncio.run(_make_model(postgres))
    return postgres


async def _make_model(server: PostgresServer) -> None:
    await server.say("create database library_model")
    engine = open_engine(server.database("library_model"), pool=1, service="tests")
    await MIGRATIONS.run(engine)
    await engine.dispose()


@pytest.fixture(scope="module")
async def running(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Services]:
    """All services of this module, as the tests before have left them."""
    async with running_services(postgres, tmp_path_factory.mktemp("redis")) as services:
        yield services


@pytest.fixture
async def environ(postgres: PostgresServer, nats_server: NatsServer) -> dict[str, str]:
    """The variables of a service, with an empty database and the broker."""
    return {
        "PALLAS_POSTGRES_URL": await postgres.new_database(like="library_model"),
        "PALLAS_NATS_URL": nats_server.url,
    }


@pytest.fixture
async def truth(nats_server: NatsServer, bus: Connecting) -> Truth:
    """A publisher of library changes, with its stream."""
    truth = Truth(await bus(LIFECYCLE, url=nats_server.url))
    await truth.declare()
    return truth


@pytest.fixture
async def callers(nats_server: NatsServer, bus: Connecting) -> AsyncGenerator[StandIn]:
    """The stand-in for the resolver."""
    async with answering_for(await bus(RESOLVER, url=nats_server.url), StandIn()) as stand_in:
        yield stand_in


@pytest.fixture
async def search(environ: dict[str, str], truth: Truth, callers: StandIn) -> AsyncGenerator[Search]:
    """A running service."""
    async with a_search(environ) as search:
        yield search
