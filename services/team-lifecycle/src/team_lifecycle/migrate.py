"""Database migrations. They run at every start, or alone: `python -m team_lifecycle.migrate`."""

import sys
from pathlib import Path

from pallas_postgres.migrations import Migrations
from team_lifecycle.settings import TeamLifecycleSettings

MIGRATIONS = Migrations("team-lifecycle", Path(__file__).parent / "migrations", lock=0x70616C6C616D)


if __name__ == "__main__":
    sys.exit(MIGRATIONS.main(TeamLifecycleSettings.from_env))
