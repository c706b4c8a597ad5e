"""Connections to Postgres that broke while nobody used them are replaced without an error, and each of them alone."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.real_parts import until
from tests.postgres import PostgresServer

from pallas_postgres import engine as module
from pallas_postgres.engine import fetch, open_engine, reading


@pytest.fixture
async def engine(postgres: PostgresServer) -> AsyncGenerator[AsyncEngine]:
    """An engine with one connection."""
    engine = open_engine(await postgres.new_database(), pool=1, service="tests")
    yield engine
    await engine.dispose()


async def _backend(engine: AsyncEngine) -> int:
    """The process of Postgres that serves the connection."""
    return (await fetch(engine, text("select pg_backend_pid()")))[0].pg_backend_pid


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


@pytest.mark.parametrize("how", ["noticed", "asked", "in use"])
async def test_one_connection_of_many_that_is_lost_costs_one_new_one(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "asked":
        monkeypatch.setattr(module, "PING_SECONDS", 0.0)
    many = open_engine(await postgres.new_database(), pool=4, service="tests")
    before = await _backends(many)
    [*_, (lost, driver)] = before.items()  # the next one to be used

    async def is_closed() -> bool:
        return driver.is_closed()

    if how == "in use":
        async with many.connect() as connection:
            assert await connection.scalar(text("select pg_backend_pid()")) == lost
            await postgres.say(f"select pg_terminate_backend({lost})")
            with pytest.raises(DBAPIError):
                await connection.execute(text("select 1"))
    else:
        await postgres.say(f"select pg_terminate_backend({lost})")
        await until(is_closed)
    after = await _backends(many)
    await many.dispose()
    assert before.keys() - after.keys() == {lost}
    assert len(after) == 4


async def _backends(engine: AsyncEngine) -> dict[int, Any]:
    """The connections of an engine by their processes of Postgres, in the order in which they go back to the pool."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(engine.connect()) for _ in range(4)]
        return {
            await each.scalar(text("select pg_backend_pid()")) or 0: (await each.get_raw_connection()).driver_connection
            for each in reversed(opened)
        }
