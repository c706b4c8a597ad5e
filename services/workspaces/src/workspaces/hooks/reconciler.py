"""The reconciler (auth contract, section 8.6): a timer that makes every instance due.

One replica at a time makes a cycle, which is one short transaction; the runners of all replicas do the work.
"""

import asyncio
import logging
import uuid
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import ColumnElement, func, literal, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.types import Text

from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import postgres_errors
from workspaces.hooks.leases import RECONCILE
from workspaces.live.hub import WORK, Hub
from workspaces.model import Who
from workspaces.tables import DueHook, PallasInstance, RetiredTeam, Setting

log = logging.getLogger(__name__)

LOCK = 0x70616C6C7772
"""The advisory lock of whoever makes a cycle."""
_LAST = "last_reconcile"
ACCOUNT = "reconciler"
LOOKED_AFTER = timedelta(days=7)
"""How long a deleted team is looked after, in case Mnemosyne loses that it was deleted."""


async def make_all_due(session: AsyncSession, who: Who, *, only: str | None = None) -> None:
    """Make all instances due, or one, with the transaction of the session. What is due already keeps its time."""
    recent = RetiredTeam.retired_at > func.now() - LOOKED_AFTER
    for table, further in ((PallasInstance, literal(True)), (RetiredTeam, or_(RetiredTeam.done_at.is_(None), recent))):
        where: list[ColumnElement[bool]] = [further, *([table.id == only] if only else [])]
        rows = insert(DueHook).from_select(
            ["instance_id", "hooks", "correlation", "actor"],
            select(table.id, literal([RECONCILE], ARRAY(Text)), literal(who.correlation), literal(who.account))
            .where(*where)
            .order_by(table.id),
        )
        waiting = func.array_append(func.array_remove(DueHook.hooks, RECONCILE), RECONCILE)
        await session.execute(
            rows.on_conflict_do_update(
                index_elements=[DueHook.instance_id], set_={"hooks": waiting, "version": DueHook.version + 1}
            )
        )
    await Hub.tell_in(session, WORK, "hooks", {})


class Reconciler:
    """Makes a cycle every `interval` seconds, which may be changed. Run `run` in a task."""

    def __init__(self, engine: AsyncEngine, interval: float) -> None:
        self._engine = engine
        self.interval = interval

    async def run(self) -> None:
        """Make cycles until cancelled; the replicas together make one in each interval."""
        while True:
            with suppress(Unavailable):
                await self.cycle(after=self.interval)
            await asyncio.sleep(min(self.interval, 10.0) / 4)

    async def cycle(self, *, after: float = 0.0) -> bool:
        """Make a cycle, unless there was one within `after` seconds. Returns whether it was made.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        async with postgres_errors(), AsyncSession(self._engine) as session:
            if not await session.scalar(text("select pg_try_advisory_xact_lock(:lock)"), {"lock": LOCK}):
                return False
            age = text(
                "select extract(epoch from clock_timestamp() - (value ->> 'at')::timestamptz) "
                "from settings where key = :key"
            )
            passed = await session.scalar(age, {"key": _LAST})
            if passed is not None and 0 <= passed < after:
                return False
            await make_all_due(session, Who(ACCOUNT, uuid.uuid4().hex))
            at = func.jsonb_build_object("at", func.clock_timestamp())
            last = insert(Setting).values(key=_LAST, value=at)
            await session.execute(last.on_conflict_do_update(index_elements=[Setting.key], set_={"value": at}))
            await session.commit()
        return True
