"""Answers `auth.lookup`: what the truth says about some look-ups, as of one moment."""

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.auth import LookedUp, Lookups
from pallas_contracts.errors import Rejected
from pallas_postgres.engine import postgres_errors
from team_lifecycle.look_up import MOST_WANTED, look_up


async def answer_lookups(question: Lookups, *, engine: AsyncEngine) -> LookedUp:
    """Look up.

    Raises:
        Rejected: too much is asked for at once.
        Unavailable: Postgres cannot be used right now.
    """
    if len(question.wanted) > MOST_WANTED:
        raise Rejected(f"at most {MOST_WANTED} look-ups can be asked for at once", code="too_many")
    async with postgres_errors(), AsyncSession(engine) as session:
        rows = await look_up(session, question.wanted)
    return LookedUp(version=rows.version, records=tuple(rows.records[key] for key in question.wanted))
