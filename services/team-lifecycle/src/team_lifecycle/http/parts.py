"""The dependencies of the routes."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from team_lifecycle.changes.make_changes import Changes
from team_lifecycle.handlers.signing import Algorithm, Seal


@dataclass(frozen=True, slots=True)
class Parts:
    """Postgres for reading, `changes` for writing, and the encryption and algorithm of signing keys."""

    engine: AsyncEngine
    changes: Changes
    seal: Seal
    algorithm: Algorithm
