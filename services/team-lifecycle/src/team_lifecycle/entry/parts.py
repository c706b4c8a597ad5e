"""What the routes are given."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from team_lifecycle.changes import Changes
from team_lifecycle.signing import Algorithm, Seal


@dataclass(frozen=True, slots=True)
class Parts:
    """Postgres to read from, the way to change it, and how keys are kept and used."""

    engine: AsyncEngine
    changes: Changes
    seal: Seal
    algorithm: Algorithm
