"""Databases of services, made on a real Postgres where they are missing."""

import asyncio
from collections.abc import Generator

import pytest
from tests.embedded import free_port
from tests.postgres import PostgresServer

from pallas_cli.refused import Refused
from pallas_cli.stack.databases import database_url, ensure_database


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Generator[PostgresServer]:
    """A Postgres of these tests alone."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


async def test_a_database_is_made_once_and_kept(postgres: PostgresServer) -> None:
    url = database_url(postgres.url, "kept")
    await ensure_database(postgres.url, "kept")
    await postgres.say("create table t as select 7 as a", url)
    await ensure_database(postgres.url, "kept")
    assert await postgres.say("select a from t", url) == [(7,)]


async def test_databases_are_made_at_the_same_time(postgres: PostgresServer) -> None:
    names = ["one", "two", "three"]
    await asyncio.gather(*(ensure_database(postgres.url, name) for name in names))
    found = {row[0] for row in await postgres.say("select datname from pg_database")}
    assert found >= set(names)


async def test_an_account_that_may_not_make_databases_is_refused_with_postgres_s_own_words(
    postgres: PostgresServer,
) -> None:
    await postgres.say("create role plain login")
    url = postgres.url.replace("postgres@", "plain:word@")
    with pytest.raises(Refused, match=r"'fresh' .*permission denied") as refusal:
        await ensure_database(url, "fresh")
    assert "word" not in str(refusal.value)


async def test_a_postgres_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="cannot be used"):
        await ensure_database(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres", "any")
