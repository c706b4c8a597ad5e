"""Database migrations. They run at every start, or alone: `python -m library_search.migrate`."""

import os
import sys
from pathlib import Path

from library_search.settings import LibrarySearchSettings
from pallas_contracts.errors import PallasError
from pallas_postgres.migrations import Migrations

MIGRATIONS = Migrations("library-search", Path(__file__).parent / "migrations", lock=0x70616C6C736D)


def main() -> int:
    """Return the exit code."""
    try:
        settings = LibrarySearchSettings.from_env(os.environ)
    except PallasError as error:
        sys.stderr.write(f"library-search: {error.message}\n")
        return 1
    return MIGRATIONS.run_alone(settings.postgres_url.get_secret_value())


if __name__ == "__main__":
    sys.exit(main())
