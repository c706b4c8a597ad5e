"""The migrations of team-lifecycle's tables, as Alembic runs them. A revision that is on main is never edited."""
