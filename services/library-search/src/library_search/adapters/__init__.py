"""Adapters: access to Postgres."""
