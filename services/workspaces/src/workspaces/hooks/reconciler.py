"""The reconciler (auth contract, section 8.6): a timer that makes every instance due.

One replica at a time makes a cycle, which is one short transaction; the runners of all replicas do the work.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta

from sqlalchemy import ColumnElement, func, literal, or_, select, text
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.types import Text

from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import reading, writing
from workspaces.answers import SettingsView
from workspaces.hooks.due import RECONCILE, count_waiting, reconciler
from workspaces.live.hub import WORK, Hub
from workspaces.metrics import Metrics
from workspaces.model import Who
from workspaces.registries.refresh import Refresher
from workspaces.stored_settings import stored_settings
from workspaces.tables import Assignment, DueHook, PallasInstance, RetiredTeam, Setting

log = logging.getLogger(__name__)

LOCK = 0x70616C6C7772
"""The advisory lock of whoever makes a cycle."""
_LAST = "last_reconcile"
LOOK_AGAIN_SECONDS = 1.0
LOOKED_AFTER = timedelta(days=7)
"""How long a deleted team is looked after, in case Mnemosyne loses that it was deleted."""


async def make_due_for_reconciler(session: AsyncSession, who: Who, *, only: str | None = None) -> None:
    """Make all instances due, or one, with the transaction of the session: also what waits for its next try."""
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
                index_elements=[DueHook.instance_id],
                set_={
                    "hooks": waiting,
                    "version": DueHook.version + 1,
                    "due_at": func.least(DueHook.due_at, func.clock_timestamp()),
                },
            )
        )
    await Hub.tell_in(session, WORK, "hooks", {})


class Reconciler:
    """Makes cycles. Run `run` in a task."""

    def __init__(self, engine: AsyncEngine, defaults: SettingsView, refresher: Refresher, metrics: Metrics) -> None:
        self._metrics = metrics
        self._engine = engine
        self._defaults = defaults
        self._refresher = refresher

    async def run(self) -> None:
        """Make cycles until cancelled: the replicas together make one in each interval of the settings."""
        while True:
            with suppress(Unavailable):
                await self._count()
                if await self.cycle(early=False):
                    await self.refresh_attached()
            await asyncio.sleep(LOOK_AGAIN_SECONDS)

    async def cycle(self, *, early: bool = True) -> bool:
        """Make a cycle; unless `early` only if the last one is as long ago as the settings want. Returns whether."""
        async with writing(self._engine) as session:
            lock = func.pg_advisory_xact_lock if early else func.pg_try_advisory_xact_lock
            locked = await session.scalar(select(lock(LOCK)))
            if not early and not (locked and await self._is_time(session)):
                return False
            await make_due_for_reconciler(session, reconciler())
            at = func.jsonb_build_object("at", func.clock_timestamp())
            last = insert(Setting).values(key=_LAST, value=at)
            await session.execute(last.on_conflict_do_update(index_elements=[Setting.key], set_={"value": at}))
        return True

    async def _count(self) -> None:
        async with reading(self._engine) as session:
            self._metrics.due_hooks.set(await count_waiting(session))

    async def _is_time(self, session: AsyncSession) -> bool:
        interval = (await stored_settings(session, self._defaults)).reconcile_interval
        passed = await session.scalar(
            text(
                "select extract(epoch from clock_timestamp() - (value ->> 'at')::timestamptz) "
                "from settings where key = :key"
            ),
            {"key": _LAST},
        )
        return passed is None or not 0 <= passed < interval

    async def refresh_attached(self) -> None:
        """Fetch the registries of all attached instances again."""
        async with reading(self._engine) as session:
            attached = (await session.scalars(select(Assignment.pallas_instance_id).distinct())).all()
        await self._refresher.refresh(reconciler(), attached)
