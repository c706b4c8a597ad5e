"""Connections to Postgres that broke while nobody used them are replaced without an error."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.real_parts import until
from tests.postgres import PostgresServer

from pallas_postgres import engine as module
from pallas_postgres.engine import autocommit, open_engine, reading


@pytest.fixture
async def engine(postgres: PostgresServer) -> AsyncGenerator[AsyncEngine]:
    """An engine with one connection."""
    engine = open_engine(await postgres.new_database(), pool=1, service="tests")
    yield engine
    await engine.dispose()


async def _backend(engine: AsyncEngine) -> int:
    """The process of Postgres that serves the connection."""
    async with autocommit(engine) as connection:
        return await connection.scalar(text("select pg_backend_pid()")) or 0


async def test_a_connection_that_was_idle_is_asked_before_it_is_used(
    engine: AsyncEngine, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PING_SECONDS", 0.0)
    first = await _backend(engine)
    assert await _backend(engine) == first
    await postgres.say(f"select pg_terminate_backend({first})")
    assert await _backend(engine) != first


async def test_a_connection_that_was_closed_is_not_given_to_anybody(
    engine: AsyncEngine, postgres: PostgresServer
) -> None:
    first = await _backend(engine)
    async with engine.connect() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection

    async def is_closed() -> bool:
        return driver.is_closed()

    await postgres.say(f"select pg_terminate_backend({first})")
    await until(is_closed)
    async with reading(engine) as session:
        assert await session.scalar(text("select pg_backend_pid()")) != first
