"""Databases of the service in a Postgres that all tests share.

Each test has a database of its own, which is a copy of one with the tables.
"""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.postgres import PostgresServer

from pallas_postgres.engine import open_engine
from workspaces.migrate import MIGRATIONS

MODEL = "workspaces_model"


@pytest.fixture(scope="session")
def model(postgres: PostgresServer) -> str:
    """The name of a database with the tables, to be copied."""
    asyncio.run(_make_model(postgres))
    return MODEL


async def _make_model(server: PostgresServer) -> None:
    await server.say(f"create database {MODEL}")
    engine = open_engine(f"{server.url.rpartition('/')[0]}/{MODEL}", pool=1, service="tests")
    await MIGRATIONS.run(engine)
    await engine.dispose()


@pytest.fixture
async def database(postgres: PostgresServer, model: str) -> str:
    """The address of a database of this test alone, with the tables."""
    return await postgres.new_database(like=model)


@pytest.fixture
async def engine(database: str) -> AsyncGenerator[AsyncEngine]:
    """An engine for `database`."""
    engine = open_engine(database, pool=5, service="tests")
    yield engine
    await engine.dispose()
