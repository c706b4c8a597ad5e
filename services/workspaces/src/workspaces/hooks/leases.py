"""The right to speak with Mnemosyne about one instance: a lease on its row of `due_hooks`.

Whoever holds it tells Mnemosyne what the tables say at that moment. The row is deleted at the end, unless a change was
made meanwhile: then it is due again. A holder that dies leaves the row, and somebody else takes it when the lease ends.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import writing
from workspaces.hooks.due import RECONCILE, Due, free
from workspaces.model import Who
from workspaces.tables import DueHook

LEASE_SECONDS, RENEW_SECONDS = 10.0, 2.5
WAIT_SECONDS, LOOK_AGAIN_SECONDS = 10.0, 0.05


class Leases:
    """The leases of a replica. They are renewed while `keep_renewing` runs."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._held = dict[str, Due]()

    async def claim(self, limit: int, *, reconciling: bool) -> list[Due]:
        """Lease up to `limit` rows that are due: those of the reconciler alone, or the others.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        if limit <= 0:
            return []
        only = DueHook.hooks == [RECONCILE]
        wanted = DueHook.due_at <= func.clock_timestamp(), _is_free(), only if reconciling else ~only
        chosen = select(DueHook.instance_id).where(*wanted).order_by(DueHook.due_at).limit(limit)
        lease = (
            update(DueHook)
            .where(DueHook.instance_id.in_(chosen.with_for_update(skip_locked=True)))
            .values(owner=func.gen_random_uuid().cast(DueHook.owner.type), leased_until=_until())
            .returning(DueHook)
        )
        async with writing(self._engine) as session:
            found = [_due(row) for row in await session.scalars(lease)]
        self._held |= {due.owner: due for due in found}
        return found

    @asynccontextmanager
    async def hold(self, who: Who, instance_id: str, *hooks: str) -> AsyncGenerator[Due]:
        """Lease the row of an instance now, for whoever waits for it, and make `hooks` due in it.

        At the end the lease is given back. What was not finished by then is due.

        Raises:
            Unavailable: somebody else has it for too long (`busy`), or Postgres cannot be used right now.
        """
        due = await self._take(who, instance_id, hooks)
        self._held[due.owner] = due
        try:
            yield due
        finally:
            await self._release([due])

    def forget(self, ended: Iterable[Due]) -> None:
        """Renew these leases no more."""
        for due in ended:
            self._held.pop(due.owner, None)

    async def release_all(self) -> None:
        """Give all leases back, so that others need not wait for their end."""
        await self._release(list(self._held.values()))

    async def keep_renewing(self) -> None:
        """Renew the leases, for ever."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if keys := [(due.instance_id, due.owner) for due in self._held.values()]:
                held = update(DueHook).where(tuple_(DueHook.instance_id, DueHook.owner).in_(keys))
                with suppress(Unavailable):
                    async with writing(self._engine) as session:
                        await session.execute(held.values(leased_until=_until()))

    async def _release(self, ended: Sequence[Due]) -> None:
        self.forget(ended)
        if ended:
            with suppress(Unavailable):
                async with writing(self._engine) as session:
                    await free(session, ended)

    async def _take(self, who: Who, instance_id: str, hooks: Sequence[str]) -> Due:
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    if (due := await self._try(who, instance_id, hooks)) is not None:
                        return due
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
        raise Unavailable("Mnemosyne is being told about this instance; try again", code="busy")

    async def _try(self, who: Who, instance_id: str, hooks: Sequence[str]) -> Due | None:
        rows = insert(DueHook).values(
            instance_id=instance_id,
            hooks=[],
            correlation=who.correlation,
            actor=who.account,
            owner=uuid.uuid4().hex,
            leased_until=_until(),
        )
        lease = rows.on_conflict_do_update(
            index_elements=[DueHook.instance_id],
            set_={"owner": rows.excluded.owner, "leased_until": rows.excluded.leased_until},
            where=_is_free(),
        )
        async with writing(self._engine) as session:
            row = await session.scalar(lease.returning(DueHook))
            if row is None:
                return None
            found = _due(row)
            due = replace(found, hooks=tuple({*found.hooks, *hooks}), others=found.hooks, who=who)
            wanted = update(DueHook).where(DueHook.instance_id == instance_id)
            await session.execute(wanted.values(hooks=list(due.hooks)))
        return due


def _is_free() -> Any:
    return or_(DueHook.leased_until.is_(None), DueHook.leased_until < func.clock_timestamp())


def _until() -> Any:
    return func.clock_timestamp() + text(f"interval '{LEASE_SECONDS:g} seconds'")


def _due(row: DueHook) -> Due:
    who = Who(row.actor, row.correlation)
    return Due(row.instance_id, row.owner or "", tuple(row.hooks), row.version, row.attempt + 1, who)
