"""The service in the test's process, with databases in a Postgres that all tests share.

`lab` is the module's service without content. `own_lab` is a service of one test alone, for tests that count changes,
stop a server or need other settings (see `a_workspaces`). Neither has a broker.
"""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.workspaces.lab import Lab, a_workspaces, empty
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
    engine = open_engine(server.database(MODEL), pool=1, service="tests")
    await MIGRATIONS.run(engine)
    await engine.dispose()


@pytest.fixture
async def database(postgres: PostgresServer, model: str) -> str:
    """The address of a database of this test alone, with the tables."""
    return await postgres.new_database(like=model)


@pytest.fixture
async def engine(database: str) -> AsyncGenerator[AsyncEngine]:
    engine = open_engine(database, pool=5, service="tests")
    yield engine
    await engine.dispose()


@pytest.fixture(scope="module")
async def module_lab(postgres: PostgresServer, model: str) -> AsyncGenerator[Lab]:
    """A running service, as the tests before have left it."""
    async with a_workspaces(postgres_url=await postgres.new_database(like=model)) as lab:
        yield lab


@pytest.fixture
async def lab(module_lab: Lab, postgres: PostgresServer) -> Lab:
    """The module's service, emptied. Its browser is logged in."""
    await empty(postgres, module_lab.settings["postgres_url"])
    return module_lab


@pytest.fixture
async def own_lab(database: str) -> AsyncGenerator[Lab]:
    """A service of this test alone, with `database`."""
    async with a_workspaces(postgres_url=database) as lab:
        yield lab
