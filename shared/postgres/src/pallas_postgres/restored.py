"""What a service does once with a database that was restored from a backup, before it does anything else with it.

`pallas backup restore` leaves a row in the table `pallas_restored`. What a service was about to do when the backup was
made may have been done since, so the service gives it up instead of doing it again.
"""

import logging
from collections.abc import Awaitable, Callable

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_postgres.engine import postgres_errors

log = logging.getLogger(__name__)

_IS_MARKED = text("select to_regclass('public.pallas_restored') is not null")
_NEW = text("select backup from pallas_restored where settled_at is null for update")
_SETTLED = text("update pallas_restored set settled_at = now() where settled_at is null")


async def settle_restored(engine: AsyncEngine, settle: Callable[[AsyncSession], Awaitable[None]]) -> None:
    """Run `settle` if the database was restored since this was last done, in the transaction that notes that.

    Raises:
        Unavailable: Postgres cannot be used right now, or whatever `settle` raises; the call may be repeated.
    """
    async with postgres_errors(), AsyncSession(engine) as session, session.begin():
        if not await session.scalar(_IS_MARKED):
            return
        if backups := (await session.scalars(_NEW)).all():
            log.warning("the database was restored", extra={"backups": list(backups)})
            await settle(session)
            await session.execute(_SETTLED)
