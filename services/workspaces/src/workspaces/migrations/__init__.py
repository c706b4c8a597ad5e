"""The migrations of the tables of workspaces, as Alembic runs them. A revision that is on main is never edited."""
