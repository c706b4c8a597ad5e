"""Brings a service's tables up to date.

Whoever comes first does it, the others wait; where nothing is to be done nothing is touched.
"""

import asyncio
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import PallasError
from pallas_postgres.engine import open_engine, postgres_errors

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Migrations:
    """The revisions in `folder`, as Alembic has them; `lock` is the service's own advisory lock."""

    service: str
    folder: Path
    lock: int

    async def run(self, engine: AsyncEngine) -> None:
        """Run the revisions that are missing in the engine's database, all or none, for as long as they take.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        await self._run_at(engine.url.render_as_string(hide_password=False))

    async def _run_at(self, url: str) -> None:
        patient = open_engine(url, pool=1, service=self.service, command_seconds=None)
        try:
            await self._run(patient)
        finally:
            await patient.dispose()

    async def _run(self, patient: AsyncEngine) -> None:
        async with postgres_errors(), patient.begin() as connection:
            await connection.execute(text("set local statement_timeout = 0"))
            await connection.execute(text("set local lock_timeout = 0"))
            if not await connection.scalar(text("select pg_try_advisory_xact_lock(:lock)"), {"lock": self.lock}):
                log.warning("waiting for another migration of this database")
                await connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": self.lock})
            await connection.run_sync(self._upgrade)

    def run_alone(self, url: str) -> int:
        """Do it as a command of its own; return the exit code."""
        try:
            asyncio.run(self._run_at(url))
        except PallasError as error:
            sys.stderr.write(f"{self.service}: {error.message}\n")
            return 1
        return 0

    def _upgrade(self, connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
