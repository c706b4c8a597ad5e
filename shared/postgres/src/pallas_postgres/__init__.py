"""Postgres as services use it: a bounded pool, errors that say whether to try again, tables brought up to date."""
