"""Dumps Postgres databases with pg_dump, and restores them with pg_restore.

Both come with the Postgres of this environment, and read servers up to its version. `PALLAS_PG_BIN` names the folder of
others. Passwords are passed in the environment, since every account can see a command line.
"""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote, urlsplit

from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.processes.environment import server_environment
from pallas_cli.refused import NotReachable, Refused

if TYPE_CHECKING:
    from asyncpg import Connection

_CONNECT = 5.0
_DUMP = ("--format=custom", "--no-owner", "--no-acl")
_RESTORE = ("--no-owner", "--no-acl", "--single-transaction", "--exit-on-error")
_OTHERS = "select count(*) > 0 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
_TABLES = "select count(*) > 0 from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
_CLEAR = "drop schema public cascade; create schema public authorization pg_database_owner"
"""The owner is that of a new database; with another one, a later dump would create the schema once more."""
_MARK = """\
create table if not exists pallas_restored (
  backup text primary key, taken_at timestamptz not null, restored_at timestamptz not null default now(),
  settled_at timestamptz
)
"""
_MARKED = """\
insert into pallas_restored (backup, taken_at) values ($1, $2)
on conflict (backup) do update set restored_at = now(), settled_at = null
"""


async def dump(url: str, sink: BinaryIO) -> None:
    """Write a dump of the database, as of one moment.

    Raises:
        Refused: pg_dump fails.
    """
    await _run("pg_dump", *_DUMP, url=url, stdout=sink, what="saved")


async def restore(url: str, source: BinaryIO) -> None:
    """Restore a dump into an empty database: as a whole, or not at all. The objects belong to the role of the address.

    Raises:
        Refused: pg_restore fails.
    """
    await _run("pg_restore", *_RESTORE, url=url, stdin=source, what="restored")


async def is_empty(url: str) -> bool:
    """Whether the database has no table.

    Raises:
        Refused: it cannot be used.
    """
    async with _connected(url) as database:
        return not await database.fetchval(_TABLES)


async def is_used(url: str) -> bool:
    """Whether others are connected to the database.

    Raises:
        Refused: it cannot be used.
    """
    async with _connected(url) as database:
        return bool(await database.fetchval(_OTHERS))


async def clear(url: str) -> None:
    """Remove everything from the database.

    Raises:
        Refused: it cannot be used, or does not belong to the role of the address.
    """
    async with _connected(url) as database:
        await database.execute(_CLEAR)


async def mark_restored(url: str, backup: str, taken_at: datetime) -> None:
    """Leave a note for the service of the database: what it was about to do then must not be done now.

    Raises:
        Refused: the database cannot be used.
    """
    async with _connected(url) as database:
        await database.execute(_MARK)
        await database.execute(_MARKED, backup, taken_at)


async def _run(
    program: str, *words: str, url: str, what: str, stdin: BinaryIO | int = DEVNULL, stdout: BinaryIO | int = DEVNULL
) -> None:
    shown, secret = _without_password(url)
    folder = os.environ.get("PALLAS_PG_BIN")
    binary = os.path.join(folder, program) if folder else str(EmbeddedPostgres.binary(program))
    try:
        process = await asyncio.create_subprocess_exec(
            binary,
            *words,
            f"--dbname={shown}",
            stdin=stdin,
            stdout=stdout,
            stderr=PIPE,
            env=server_environment() | {"PGPASSWORD": secret, "PGCONNECT_TIMEOUT": f"{_CONNECT:g}"},
        )
    except OSError as error:
        raise Refused(f"cannot run {binary}: {error.strerror}") from error
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise Refused(f"the database {name_of(url)!r} cannot be {what}: {lines[0]}")


def name_of(url: str) -> str:
    """The name of the database at an address."""
    return urlsplit(url).path.lstrip("/")


def _without_password(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    server = f"{user}{parts.netloc.rpartition('@')[2]}"
    return parts._replace(netloc=server).geturl(), unquote(parts.password or "")


@asynccontextmanager
async def _connected(url: str) -> "AsyncGenerator[Connection]":
    import asyncpg

    try:
        database = await asyncpg.connect(url, timeout=_CONNECT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _unusable(url, error) from error
    try:
        yield database
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _unusable(url, error) from error
    finally:
        await database.close()


def _unusable(url: str, error: Exception) -> Refused:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    kind = NotReachable if isinstance(error, OSError) else Refused  # TimeoutError is an OSError
    return kind(f"the database {name_of(url)!r} on {urlsplit(url).hostname} cannot be used: {why}")
