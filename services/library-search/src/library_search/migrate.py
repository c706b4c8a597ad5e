"""Database migrations. They run at every start, or alone: `python -m library_search.migrate`."""

import sys
from pathlib import Path

from library_search.settings import LibrarySearchSettings
from pallas_postgres.migrations import Migrations

MIGRATIONS = Migrations("library-search", Path(__file__).parent / "migrations", lock=0x70616C6C736D)


if __name__ == "__main__":
    sys.exit(MIGRATIONS.main(LibrarySearchSettings.from_env))
