"""The transactional outbox of invalidations: look-ups of committed changes whose cache entries may be old.

A change inserts its row in its own transaction, and the row is deleted after the cache was updated. So every replica
finds the invalidations that were not done, because of a crash or because the cache was away. A row that can be read
belongs to a committed change. Any replica may then invalidate its look-ups, also one that did not make the change.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from sqlalchemy import delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_postgres.engine import postgres_errors
from team_lifecycle.tables import PendingInvalidation

GRACE_SECONDS = 2.0
"""Age at which any replica that polls takes a row over. Until then it is left to the replica that made the change."""

_FIND = text("""
with gone as (delete from unsettled where number = any((:done)::bigint[]))
select number, keys from unsettled where number <> all((:done)::bigint[])
""")


@dataclass(frozen=True, slots=True)
class Pending:
    """Pending invalidations: the numbers of their changes, and their look-ups."""

    numbers: frozenset[int]
    keys: frozenset[LookupKey]

    @classmethod
    def nothing(cls) -> Self:
        """No pending invalidations."""
        return cls(frozenset(), frozenset())


def pending_row(number: int, keys: Collection[LookupKey]) -> PendingInvalidation:
    """The row of a change."""
    return PendingInvalidation(number=number, keys=[[key.kind, key.id] for key in keys])


async def find_pending(session: AsyncSession, done: Collection[int]) -> Pending:
    """Read the pending invalidations, and delete the rows of the changes that are `done`."""
    rows = (await session.execute(_FIND, {"done": list(done)})).all()
    keys = frozenset(LookupKey.model_validate({"kind": kind, "id": id_}) for row in rows for kind, id_ in row.keys)
    return Pending(frozenset(row.number for row in rows), keys)


async def is_any_overdue(engine: AsyncEngine, but: Collection[int]) -> bool:
    """Whether a row other than `but` is older than `GRACE_SECONDS`.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    age = func.extract("epoch", func.clock_timestamp() - PendingInvalidation.at)
    async with postgres_errors(), AsyncSession(engine) as session:
        numbers = select(PendingInvalidation.number)
        overdue = numbers.where(PendingInvalidation.number.not_in(but), age > GRACE_SECONDS).limit(1)
        return await session.scalar(overdue) is not None


async def remove(session: AsyncSession, numbers: Collection[int]) -> None:
    """Delete the rows of these changes."""
    await session.execute(delete(PendingInvalidation).where(PendingInvalidation.number.in_(numbers)))


async def remove_unlocked(engine: AsyncEngine, numbers: Collection[int]) -> None:
    """Delete these rows outside of a change. Rows that a change is deleting are skipped, so no change waits for this.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    mine = PendingInvalidation.number.in_(numbers)
    unlocked = select(PendingInvalidation.number).where(mine).with_for_update(skip_locked=True)
    async with postgres_errors(), AsyncSession(engine) as session, session.begin():
        await session.execute(delete(PendingInvalidation).where(PendingInvalidation.number.in_(unlocked)))
