"""What changes have left behind: look-ups that they touched and of which it is not certain that everybody knows.

A row is written in the change's own transaction and removed after the cache has been told. So every replica knows what
a crash has left, or a cache that was away, for as long as it matters. A row that can be seen belongs to a change that
was committed: whoever condemns its look-ups from then on has settled it, also while its own replica is at it still.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from sqlalchemy import delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_postgres.engine import postgres_errors
from team_lifecycle.tables import Unsettled

POLITE = 2.0
"""Seconds for which whoever only looks around leaves a change to the replica that made it."""

_FIND = text("""
with gone as (delete from unsettled where number = any((:settled)::bigint[]))
select number, keys from unsettled where number <> all((:settled)::bigint[])
""")


@dataclass(frozen=True, slots=True)
class Left:
    """Changes by their numbers, and the look-ups that they touched."""

    numbers: frozenset[int]
    keys: frozenset[LookupKey]

    @classmethod
    def nothing(cls) -> Self:
        """Nothing is left."""
        return cls(frozenset(), frozenset())


def unsettled(number: int, keys: Collection[LookupKey]) -> Unsettled:
    """The row of a change."""
    return Unsettled(number=number, keys=[[key.kind, key.id] for key in keys])


async def find_left(session: AsyncSession, settled: Collection[int]) -> Left:
    """What is left; rows of changes that are known to be settled are removed on the way."""
    rows = (await session.execute(_FIND, {"settled": list(settled)})).all()
    keys = frozenset(LookupKey.model_validate({"kind": kind, "id": id_}) for row in rows for kind, id_ in row.keys)
    return Left(frozenset(row.number for row in rows), keys)


async def is_any_left(engine: AsyncEngine, but: Collection[int]) -> bool:
    """Whether something is left of which nobody seems to take care.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    age = func.extract("epoch", func.clock_timestamp() - Unsettled.at)
    async with postgres_errors(), AsyncSession(engine) as session:
        old = select(Unsettled.number).where(Unsettled.number.not_in(but), age > POLITE).limit(1)
        return await session.scalar(old) is not None


async def remove(session: AsyncSession, numbers: Collection[int]) -> None:
    """These are settled."""
    await session.execute(delete(Unsettled).where(Unsettled.number.in_(numbers)))


async def remove_free(engine: AsyncEngine, numbers: Collection[int]) -> None:
    """The same outside of a change, but for rows that one is removing just now: no change waits for this.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    free = select(Unsettled.number).where(Unsettled.number.in_(numbers)).with_for_update(skip_locked=True)
    async with postgres_errors(), AsyncSession(engine) as session, session.begin():
        await session.execute(delete(Unsettled).where(Unsettled.number.in_(free)))
