"""Brings the tables up to date: at every start, or alone as `python -m library_search.migrate`.

Whoever comes first does it, the others wait; where nothing is to be done nothing is touched.
"""

import asyncio
import os
import sys
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from library_search.adapters.database import open_engine, postgres_errors
from library_search.settings import LibrarySearchSettings
from pallas_contracts.errors import PallasError

MIGRATION_LOCK = 0x70616C6C736D


async def migrate(engine: AsyncEngine) -> None:
    """Run the revisions that are missing, all or none.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    async with postgres_errors(), engine.begin() as connection:
        await connection.execute(text("set local statement_timeout = 0"))
        await connection.execute(text("set local lock_timeout = 0"))
        await connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        await connection.run_sync(_upgrade)


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def _alone() -> None:
    settings = LibrarySearchSettings.from_env(os.environ)
    engine = open_engine(settings.postgres_url.get_secret_value(), pool=1)
    try:
        await migrate(engine)
    finally:
        await engine.dispose()


def main() -> int:
    """Return the exit code."""
    try:
        asyncio.run(_alone())
    except PallasError as error:
        sys.stderr.write(f"library-search: {error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
