"""Missing databases of services are created on a real Postgres."""

import asyncio
from urllib.parse import urlsplit

import pytest
from sqlalchemy.exc import DBAPIError
from tests.embedded import free_port
from tests.postgres import PostgresServer

from pallas_cli.embedded.postgres import database_url, ensure_database
from pallas_cli.refused import Refused


async def test_a_database_is_created_once_and_kept(postgres: PostgresServer) -> None:
    url = database_url(postgres.url, "kept")
    await ensure_database(postgres.url, "kept")
    await postgres.say("create table t as select 7 as a", url)
    await ensure_database(postgres.url, "kept")
    assert await postgres.say("select a from t", url) == [(7,)]


async def test_databases_can_be_created_concurrently(postgres: PostgresServer) -> None:
    names = ["one", "two", "three"]
    await asyncio.gather(*(ensure_database(postgres.url, name) for name in names))
    found = {row[0] for row in await postgres.say("select datname from pg_database")}
    assert found >= set(names)


async def test_an_account_without_the_right_to_create_databases_gets_the_error_of_postgres(
    postgres: PostgresServer,
) -> None:
    await postgres.say("create role plain login password 'word'")
    url = f"postgresql://plain:word@{postgres.url.partition('@')[2]}"
    with pytest.raises(Refused, match=r"'fresh' .*permission denied") as refusal:
        await ensure_database(url, "fresh")
    assert "word" not in str(refusal.value)


async def test_a_role_owns_its_database_and_reads_no_other(postgres: PostgresServer) -> None:
    for name in ("own", "foreign"):
        await ensure_database(postgres.url, name, f"password-of-{name}")
    await ensure_database(postgres.url, "own", "another")
    own = database_url(postgres.url, "own", "another")
    await postgres.say("create table t as select 7 as a", own)
    [rights] = await postgres.say("select rolsuper, rolcreatedb, rolcreaterole from pg_roles where rolname = 'own'")
    assert rights == (False, False, False)
    for closed in ("foreign", "postgres", "template1"):
        address = urlsplit(own)._replace(path=f"/{closed}").geturl()
        with pytest.raises(DBAPIError, match="permission denied for database"):
            await postgres.say("select 1", address)
    with pytest.raises(DBAPIError, match="permission denied"):
        await postgres.say("copy t from program 'true'", own)
    with pytest.raises(DBAPIError, match="password authentication failed"):
        await postgres.say("select 1", database_url(own, "own", "password-of-own"))


async def test_an_unreachable_postgres_is_refused() -> None:
    with pytest.raises(Refused, match="cannot be used"):
        await ensure_database(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres", "any")
