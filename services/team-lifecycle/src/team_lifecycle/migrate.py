"""Database migrations. They run at every start, or alone: `python -m team_lifecycle.migrate`."""

import os
import sys
from pathlib import Path

from pallas_contracts.errors import PallasError
from pallas_postgres.migrations import Migrations
from team_lifecycle.settings import TeamLifecycleSettings

MIGRATIONS = Migrations("team-lifecycle", Path(__file__).parent / "migrations", lock=0x70616C6C616D)


def main() -> int:
    """Return the exit code."""
    try:
        settings = TeamLifecycleSettings.from_env(os.environ)
    except PallasError as error:
        sys.stderr.write(f"team-lifecycle: {error.message}\n")
        return 1
    return MIGRATIONS.run_alone(settings.postgres_url.get_secret_value())


if __name__ == "__main__":
    sys.exit(main())
