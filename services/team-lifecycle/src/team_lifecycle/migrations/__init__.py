"""The history of the tables, as Alembic runs it. A revision that is on main is never edited."""
