"""Workspaces with attached teams, and conversations with their agents.

Whatever uses Postgres raises `Unavailable` while that cannot be used. Docstrings name only what else is raised.
"""
