"""Database migrations. They run at every start, or alone: `python -m workspaces.migrate`."""

import sys
from pathlib import Path

from pallas_postgres.migrations import Migrations
from workspaces.settings import WorkspacesSettings

MIGRATIONS = Migrations("workspaces", Path(__file__).parent / "migrations", lock=0x70616C6C776B)


if __name__ == "__main__":
    sys.exit(MIGRATIONS.main(WorkspacesSettings.from_env))
