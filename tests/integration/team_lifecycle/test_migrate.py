"""`python -m team_lifecycle.migrate`, as a migration job runs it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from tests.embedded import free_port
from tests.integration.team_lifecycle.lab import a_lifecycle, environment
from tests.postgres import PostgresServer, for_asyncpg

from pallas_postgres.engine import open_engine
from pallas_postgres.migrations import Migrations
from team_lifecycle.migrate import MIGRATIONS

ENV = """
from alembic import context
context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
"""
SLOW = """
from alembic import op
revision, down_revision = "0001", None
def upgrade():
    op.execute("select pg_sleep(1)")
    op.execute("create table slowly (id int)")
"""
EMPTY = """
revision, down_revision = {revision}, {before}
def upgrade():
    pass
"""
TABLES = "select count(*) from pg_tables where schemaname = 'public'"


async def start_job(postgres_url: str) -> asyncio.subprocess.Process:
    """Start the command."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "team_lifecycle.migrate"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment(postgres_url=postgres_url)},
    )


async def run_job(postgres_url: str) -> tuple[int, str]:
    """Run the command. Returns its exit code and its output."""
    process = await start_job(postgres_url)
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_concurrent_migration_jobs_create_the_tables_once(
    postgres: PostgresServer, addresses: dict[str, str]
) -> None:
    database = await postgres.new_database()
    assert await postgres.say(TABLES, database) == [(0,)]
    assert [code for code, _ in await asyncio.gather(*(run_job(database) for _ in range(2)))] == [0, 0]
    [(tables,)] = await postgres.say(TABLES, database)
    assert tables
    async with a_lifecycle(**{**addresses, "postgres_url": database}) as lifecycle:
        team_id, _ = await lifecycle.team()

        assert await run_job(database) == (0, "")
        assert (await lifecycle.daedalus.get(f"/mcp_server/api/teams/{team_id}/")).status_code == 200
        assert await postgres.say(TABLES, database) == [(tables,)]


async def test_a_migration_job_reports_that_it_waits_for_another_one(postgres: PostgresServer) -> None:
    database = await postgres.new_database()
    other = create_async_engine(for_asyncpg(database))
    async with other.connect() as connection:
        await connection.execute(text("select pg_advisory_lock(:lock)"), {"lock": MIGRATIONS.lock})
        waiting = await start_job(database)
        assert waiting.stdout is not None
        assert (
            await asyncio.wait_for(waiting.stdout.readline(), 30) == b"waiting for another migration of this database\n"
        )
    await other.dispose()
    assert await asyncio.wait_for(waiting.wait(), 30) == 0


async def test_a_migration_may_exceed_the_statement_timeout(postgres: PostgresServer, tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(ENV, "utf-8")
    (tmp_path / "versions" / "r0001.py").write_text(SLOW, "utf-8")
    database = await postgres.new_database()
    engine = open_engine(database, pool=1, service="tests", command_seconds=0.5)
    try:
        await Migrations("tests", tmp_path, lock=1).run(engine)
    finally:
        await engine.dispose()
    assert await postgres.say("select count(*) from slowly", database) == [(0,)]


async def test_a_release_that_is_rolled_back_uses_the_database_of_the_later_one(
    postgres: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (EMPTY.format(revision=repr(one), before=repr(before)) for one, before in (("1", None), ("2", "1")))
    for release, scripts in (("old", [first]), ("new", [first, second])):
        (tmp_path / release / "versions").mkdir(parents=True)
        (tmp_path / release / "env.py").write_text(ENV, "utf-8")
        for number, script in enumerate(scripts):
            (tmp_path / release / "versions" / f"r{number}.py").write_text(script, "utf-8")
    database = await postgres.new_database()
    engine = open_engine(database, pool=1, service="tests")
    for release in ("new", "old"):
        await Migrations("tests", tmp_path / release, lock=1).run(engine)
    await engine.dispose()
    assert await postgres.say("select version_num from alembic_version", database) == [("2",)]
    assert caplog.messages.count("a later release has migrated this database") == 1


async def test_without_postgres_the_job_fails_with_one_line_without_the_password() -> None:
    code, output = await run_job(f"postgresql://someone:hunter2@127.0.0.1:{free_port()}/db")
    assert code == 1
    [line] = output.splitlines()
    assert line.startswith("team-lifecycle: ")
    assert "hunter2" not in output
