"""Databases of services on one Postgres, created if they are missing, with a role for each service if wanted."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from asyncpg import Connection

_TIMEOUT = 5.0
_OWNER = "select pg_get_userbyid(datdba) from pg_database where datname = $1"
_ROLE = """\
do $$ begin
  if not exists (select from pg_roles where rolname = '{name}') then create role "{name}"; end if;
  alter role "{name}" login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password '{password}';
end $$
"""
_TABLES = """\
do $$ declare it regclass; begin
  for it in select oid from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') loop
    execute format('alter table %s owner to "{name}"', it);
  end loop;
end $$
"""


def database_url(url: str, name: str, password: str | None = None) -> str:
    """The address of the database `name` on the server at `url`; with a `password`, for the role of the same name."""
    parts = urlsplit(url)
    server = parts.netloc if password is None else f"{name}:{password}@{parts.netloc.rpartition('@')[2]}"
    return parts._replace(netloc=server, path=f"/{name}").geturl()


def without_user(url: str) -> str:
    """The address of a server without user, password and database."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], path="", query="").geturl()


async def ensure_database(url: str, name: str, password: str | None = None) -> None:
    """Create the database `name` on the server at `url`, unless it exists.

    With a `password` (which needs a superuser), it belongs to a role of the same name that can use no other database.
    A database of another owner is transferred to that role with its tables. `postgres` and `template1` are closed to
    all roles but superusers, too.

    Raises:
        Refused: the server cannot be used, or the database cannot be created.
    """
    from asyncpg import InterfaceError, PostgresError

    try:
        async with _connected(url) as server:
            owner = await server.fetchval(_OWNER, name)
            if owner is None:
                await server.execute(f'create database "{name}"')
            if password is None:
                return
            await server.execute(_ROLE.format(name=name, password=password))
            if owner != name:
                # Tables come first: an interrupted transfer is then repeated by the next start.
                async with _connected(database_url(url, name)) as database:
                    await database.execute(_TABLES.format(name=name))
                await server.execute(f'alter database "{name}" owner to "{name}"')
            # Two services that revoke a right of the same database at once would fail.
            await server.execute("select pg_advisory_lock(1)")
            for closed in (name, "postgres", "template1"):
                await server.execute(f'revoke connect on database "{closed}" from public')
    except (PostgresError, InterfaceError, OSError, TimeoutError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise Refused(f"the database {name!r} on Postgres at {urlsplit(url).hostname} cannot be used: {why}") from error


@asynccontextmanager
async def _connected(url: str) -> "AsyncGenerator[Connection]":
    """A connection in autocommit mode."""
    import asyncpg

    connection = await asyncpg.connect(url, timeout=_TIMEOUT)
    try:
        yield connection
    finally:
        await connection.close()
