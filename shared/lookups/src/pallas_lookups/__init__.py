"""The cache of look-ups: who may read what, kept in Redis, never older than Postgres."""
