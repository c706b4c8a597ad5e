"""Provisions all registered instances that are not, and prints their JWTs: `python -m workspaces.provision_teams`.

This is the migration of the auth contract, section 9.5. It may be repeated, and may run beside the service or another
run: an instance that is provisioned already is skipped. A JWT that was printed counts as shown; `rotate` makes another.

Exit codes: 0 all instances are provisioned, 1 some are not (the table says why), 2 settings are missing or wrong.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import PallasError, Rejected
from pallas_postgres.engine import open_engine, reading
from workspaces.changes.make import Changes
from workspaces.handlers.instances import reveal_jwt
from workspaces.metrics import make_metrics
from workspaces.mnemosyne.teams import Teams, open_teams_client
from workspaces.mnemosyne.vault import Vault
from workspaces.model import Who
from workspaces.reconciling.claims import Claims
from workspaces.reconciling.now import Now
from workspaces.reconciling.sync import Syncer
from workspaces.settings import WorkspacesSettings
from workspaces.tables import PallasInstance


class Row(NamedTuple):
    """A row of the table. `jwt` is shown here for the first and last time."""

    instance_id: str
    name: str
    status: str
    jwt: str = ""


HEADINGS = Row("INSTANCE", "NAME", "STATUS", "JWT")


@dataclass(frozen=True, slots=True)
class Command:
    """The command with what it needs."""

    engine: AsyncEngine
    changes: Changes
    vault: Vault
    now: Now
    who: Who

    async def run(self) -> tuple[list[Row], bool]:
        """Provision. Returns the rows, and whether all instances are provisioned now."""
        async with reading(self.engine) as session:
            found = select(PallasInstance.id, PallasInstance.name, PallasInstance.pallas_team_mnemosyne_status)
            instances = (await session.execute(found.order_by(func.lower(PallasInstance.name)))).all()
        rows = [await self._row(one, name, status) for one, name, status in instances]
        return rows, all(not row.status.startswith("failed") for row in rows)

    async def _row(self, instance_id: str, name: str, status: str | None) -> Row:
        if status == "provisioned":
            return Row(instance_id, name, "skipped: provisioned")
        try:
            synced = await self.now.sync(self.who, instance_id)
            if synced.error is not None:
                return Row(instance_id, name, f"failed: {synced.error}")
            if not synced.has_new_jwt:
                return Row(instance_id, name, "skipped: provisioned meanwhile")
            jwt = await reveal_jwt(self.changes, self.vault, self.who, instance_id)
        except PallasError as error:
            known = "skipped: deleted meanwhile" if error.code == "no_instance" else f"failed: {error.message}"
            return Row(instance_id, name, known)
        return Row(instance_id, name, "provisioned", jwt)


@asynccontextmanager
async def a_command(settings: WorkspacesSettings) -> AsyncGenerator[Command]:
    """The command, connected.

    Raises:
        Rejected: settings are missing.
    """
    vault = Vault.of(settings)
    if settings.teams_password is None:
        raise Rejected("PALLAS_TEAMS_PASSWORD is required: it is that of daedalus-service", code="bad_settings")
    engine = open_engine(settings.postgres_url.get_secret_value(), pool=4, service="provision-teams")
    changes = Changes(engine, make_metrics(CollectorRegistry()), asyncio.Event())
    claims = Claims(engine)
    async with open_teams_client(settings.teams_password) as http:
        syncer = Syncer(Teams(http, settings.teams_url), vault, claims)
        renewing = asyncio.create_task(claims.keep_renewing())
        try:
            who = Who("operator", uuid.uuid4().hex)
            yield Command(engine, changes, vault, Now(engine, changes, claims, syncer), who)
        finally:
            renewing.cancel()
            await engine.dispose()


def table(rows: Sequence[Row]) -> str:
    """The rows in columns."""
    lines = [HEADINGS, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS) - 1)]
    return "\n".join(
        "  ".join((*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1])).rstrip()
        for line in lines
    )


async def provision_teams(environ: Mapping[str, str]) -> int:
    """Run the command and print its table. Returns the exit code."""
    async with a_command(WorkspacesSettings.from_env(environ)) as command:
        rows, complete = await command.run()
    print(table(rows))  # noqa: T201 - the table is for an operator
    return 0 if complete else 1


def main() -> int:
    """Run the command. Returns the exit code."""
    try:
        return asyncio.run(provision_teams(os.environ))
    except Rejected as error:
        sys.stderr.write(f"provision_teams: {error.message}\n")
        return 2
    except PallasError as error:
        sys.stderr.write(f"provision_teams: {error.message}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
