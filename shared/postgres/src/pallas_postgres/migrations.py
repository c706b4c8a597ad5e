"""Migrates the tables of a service.

One replica migrates, the others wait. If there is nothing to migrate, nothing is touched. A database that a later
release has migrated is used as it is: migrations only expand, so a release that is rolled back works on it.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import PallasError, Unavailable
from pallas_postgres.engine import open_engine, postgres_errors

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5


class HasPostgres(Protocol):
    """The settings of a service with a database."""

    @property
    def postgres_url(self) -> SecretStr:
        """The address of the database."""
        ...


@dataclass(frozen=True)
class Migrations:
    """The Alembic revisions in `folder`. `lock` is the advisory lock of the service."""

    service: str
    folder: Path
    lock: int

    async def run(self, engine: AsyncEngine) -> None:
        """Run the missing revisions in the database of the engine: all or none, without timeouts.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        await self._run_at(engine.url.render_as_string(hide_password=False))

    async def prepare(self, engine: AsyncEngine, then: Callable[[], Awaitable[None]]) -> None:
        """Wait for Postgres, run the missing revisions, and do `then`; all again when Postgres goes away meanwhile."""
        warned = False
        while True:
            try:
                await self.run(engine)
                await then()
            except Unavailable as error:
                if not warned:
                    log.warning("waiting for the database", extra={"reason": error.message})
                    warned = True
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _run_at(self, url: str) -> None:
        unlimited = open_engine(url, pool=1, service=self.service, command_seconds=None)
        try:
            await self._run(unlimited)
        finally:
            await unlimited.dispose()

    async def _run(self, unlimited: AsyncEngine) -> None:
        async with postgres_errors(), unlimited.begin() as connection:
            await connection.execute(text("set local statement_timeout = 0"))
            await connection.execute(text("set local lock_timeout = 0"))
            if not await connection.scalar(text("select pg_try_advisory_xact_lock(:lock)"), {"lock": self.lock}):
                log.warning("waiting for another migration of this database")
                await connection.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": self.lock})
            await connection.run_sync(self._upgrade)

    def main(self, settings: Callable[[Mapping[str, str]], HasPostgres]) -> int:
        """Run the migrations as a command, with the settings of the environment. Returns the exit code."""
        try:
            url = settings(os.environ).postgres_url.get_secret_value()
            asyncio.run(self._run_at(url))
        except PallasError as error:
            sys.stderr.write(f"{self.service}: {error.message}\n")
            return 1
        return 0

    def _upgrade(self, connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        later = set(MigrationContext.configure(connection).get_current_heads()) - known
        if later:
            log.warning("a later release has migrated this database", extra={"revisions": sorted(later)})
            return
        command.upgrade(config, "head")


_IS_MARKED = text("select to_regclass('public.pallas_restored') is not null")
_NEW = text("select backup from pallas_restored where settled_at is null for update")
_SETTLED = text("update pallas_restored set settled_at = now() where settled_at is null")


async def settle_restored(engine: AsyncEngine, settle: Callable[[AsyncSession], Awaitable[None]]) -> None:
    """Run `settle` if the database was restored since this was last done, in the transaction that notes that.

    Raises:
        Unavailable: Postgres cannot be used right now, or whatever `settle` raises; the call may be repeated.
    """
    async with postgres_errors(), AsyncSession(engine) as session, session.begin():
        if not await session.scalar(_IS_MARKED):
            return
        if backups := (await session.scalars(_NEW)).all():
            log.warning("the database was restored", extra={"backups": list(backups)})
            await settle(session)
            await session.execute(_SETTLED)
