"""Missing databases of services are created on a real Postgres."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy.exc import DBAPIError
from tests.embedded import free_port
from tests.postgres import PostgresServer

from pallas_cli.refused import Refused
from pallas_cli.stack.databases import database_url, ensure_database
from pallas_postgres.engine import open_engine
from team_lifecycle.migrate import MIGRATIONS


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


def test_the_data_of_a_stack_without_passwords_is_handed_to_the_role_and_its_password(
    tmp_path: Path,
) -> None:
    """The services of the earlier stack were superusers without passwords."""

    async def leave_as_before() -> None:
        await ensure_database(server.url, "team_lifecycle")
        database = database_url(server.url, "team_lifecycle")
        engine = open_engine(database, pool=1, service="tests")
        await MIGRATIONS.run(engine)
        await engine.dispose()
        await server.say("insert into users (name, active, created_at) values ('ann', true, now())", database)
        await server.say("alter role postgres password null")

    async def take_over() -> None:
        own = database_url(server.url, "team_lifecycle", "own")
        for _ in range(2):
            await ensure_database(server.url, "team_lifecycle", "own")
        owners = "select distinct pg_get_userbyid(relowner) from pg_class where relnamespace = 'public'::regnamespace"
        assert await server.say(owners, own) == [("team_lifecycle",)]
        assert await server.say("select name from users", own) == [("ann",)]
        await server.say("alter table users add another text", own)
        for nobody in (without_password, own.replace(":own@", "@")):
            with pytest.raises(DBAPIError, match="password authentication failed"):
                await server.say("select 1", nobody)

    with PostgresServer(tmp_path) as server:
        without_password = f"postgresql://postgres@{server.url.partition('@')[2]}"
        asyncio.run(leave_as_before())
        server.stop()
        (tmp_path / "cluster" / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n")
        server.start()
        asyncio.run(take_over())


async def test_an_unreachable_postgres_is_refused() -> None:
    with pytest.raises(Refused, match="cannot be used"):
        await ensure_database(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres", "any")
