"""`python -m team_lifecycle.migrate`, as a migration job runs it."""

import asyncio
import os
import sys

from tests.embedded import free_port
from tests.integration.team_lifecycle.lab import a_lifecycle, environment
from tests.postgres import PostgresServer

TABLES = "select count(*) from pg_tables where schemaname = 'public'"


async def migrated(postgres_url: str) -> tuple[int, str]:
    """Run the command; exit code, and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "team_lifecycle.migrate"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **environment(postgres_url=postgres_url)},
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_an_empty_database_gets_its_tables_once_however_many_jobs_run(
    postgres: PostgresServer, addresses: dict[str, str]
) -> None:
    database = await postgres.new_database()
    assert await postgres.say(TABLES, database) == [(0,)]
    assert await asyncio.gather(*(migrated(database) for _ in range(2))) == [(0, ""), (0, "")]
    [(tables,)] = await postgres.say(TABLES, database)
    assert tables
    async with a_lifecycle(**{**addresses, "postgres_url": database}) as lifecycle:
        team_id, _ = await lifecycle.team()

        assert await migrated(database) == (0, "")
        assert (await lifecycle.daedalus.get(f"/mcp_server/api/teams/{team_id}/")).status_code == 200
        assert await postgres.say(TABLES, database) == [(tables,)]


async def test_without_postgres_the_job_fails_with_a_line_that_holds_no_password() -> None:
    code, said = await migrated(f"postgresql://someone:hunter2@127.0.0.1:{free_port()}/db")
    assert code == 1
    [line] = said.splitlines()
    assert line.startswith("team-lifecycle: ")
    assert "hunter2" not in said
