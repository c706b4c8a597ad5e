"""Connections to Postgres that broke are replaced, without an error if nobody used them, and each of them alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Integer, bindparam, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.integration.real_parts import until
from tests.postgres import PostgresServer

from pallas_contracts.errors import Unavailable
from pallas_postgres import engine as module
from pallas_postgres.engine import TRIES, Prepared, RolledBack, fetch, open_engine, reading, transact

_BACKEND = Prepared(select(func.pg_backend_pid()))
_SLEEP = Prepared(select(func.pg_sleep(bindparam("seconds", type_=Integer))))


@pytest.fixture
async def engine(postgres: PostgresServer) -> AsyncGenerator[AsyncEngine]:
    """An engine with one connection."""
    engine = open_engine(await postgres.new_database(), pool=1, service="tests")
    yield engine
    await engine.dispose()


async def _backend(engine: AsyncEngine) -> int:
    """The process of Postgres that serves the connection."""
    return (await fetch(engine, _BACKEND))[0].pg_backend_pid


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


async def test_a_statement_whose_connection_is_lost_can_be_tried_again(
    engine: AsyncEngine, postgres: PostgresServer
) -> None:
    first = await _backend(engine)
    sleeping = asyncio.create_task(fetch(engine, _SLEEP, {"seconds": 60}))
    await _until_it_runs(postgres, first)
    await postgres.say(f"select pg_terminate_backend({first})")
    with pytest.raises(Unavailable) as lost:
        await sleeping
    assert lost.value.code == "no_database"
    assert await _backend(engine) != first


async def test_the_connection_of_a_statement_that_was_cancelled_is_given_to_nobody(
    engine: AsyncEngine, postgres: PostgresServer
) -> None:
    first = await _backend(engine)
    sleeping = asyncio.create_task(fetch(engine, _SLEEP, {"seconds": 60}))
    await _until_it_runs(postgres, first)
    sleeping.cancel()
    await asyncio.wait({sleeping})
    assert sleeping.cancelled()
    assert await _backend(engine) != first


@pytest.mark.parametrize(("state", "failures"), [("40001", 1), ("40P01", TRIES - 1), ("40P01", TRIES)])
async def test_a_transaction_that_was_rolled_back_for_another_one_runs_again(
    engine: AsyncEngine, state: str, failures: int
) -> None:
    runs = list[int]()

    async def insert(session: AsyncSession) -> int | None:
        runs.append(len(runs))
        await session.execute(text("create table made (run int)"))
        if len(runs) <= failures:
            await session.execute(text(f"do $$ begin raise exception using errcode = '{state}'; end $$"))
        return await session.scalar(text("insert into made values (:run) returning run"), {"run": runs[-1]})

    if failures == TRIES:
        with pytest.raises(RolledBack) as refused:
            await transact(engine, insert)
        assert (refused.value.code, len(runs)) == ("busy", TRIES)
    else:
        assert await transact(engine, insert) == failures


async def test_a_statement_that_takes_too_long_says_so(postgres: PostgresServer) -> None:
    options = {"statement_timeout": "10ms"}
    engine = open_engine(await postgres.new_database(), pool=1, service="tests", options=options)
    with pytest.raises(Unavailable) as cancelled:
        await fetch(engine, _SLEEP, {"seconds": 60})
    assert cancelled.value.code == "too_slow"
    await engine.dispose()


async def test_a_mistake_in_a_statement_is_no_outage(engine: AsyncEngine) -> None:
    with pytest.raises(asyncpg.DataError):
        await fetch(engine, _SLEEP, {"seconds": "a word"})
    with pytest.raises(asyncpg.PostgresError):
        await fetch(engine, Prepared(select(func.no_such_function())))


async def _until_it_runs(postgres: PostgresServer, backend: int) -> None:
    async def runs() -> bool:
        query = f"select query like '%pg_sleep%' and state = 'active' from pg_stat_activity where pid = {backend}"
        return (await postgres.say(query)) == [(True,)]

    await until(runs)


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
