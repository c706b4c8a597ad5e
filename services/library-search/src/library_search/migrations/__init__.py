"""The migrations of library-search's tables, as Alembic runs them. A revision that is on main is never edited."""
