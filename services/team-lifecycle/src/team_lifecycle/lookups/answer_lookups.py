"""Answers `auth.lookup` from one snapshot of Postgres."""

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.auth import LookedUp, Lookups
from pallas_contracts.errors import Rejected
from pallas_postgres.engine import postgres_errors
from team_lifecycle.lookups.look_up import MOST_WANTED, look_up


async def answer_lookups(question: Lookups, *, engine: AsyncEngine) -> LookedUp:
    """Look rows up.

    Raises:
        Rejected: too many rows are asked for.
        Unavailable: Postgres cannot be used right now.
    """
    if len(question.wanted) > MOST_WANTED:
        raise Rejected(f"wanted: must have at most {MOST_WANTED} look-ups", code="too_many")
    async with postgres_errors(), AsyncSession(engine) as session:
        rows = await look_up(session, question.wanted)
    return LookedUp(version=rows.version, records=tuple(rows.records[key] for key in question.wanted))
