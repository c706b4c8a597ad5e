"""The right to speak with Mnemosyne about one instance: a lease on its row of `due_hooks`.

Whoever holds it tells Mnemosyne what the tables say at that moment. The row is deleted at the end, unless a change was
made meanwhile: then it is due again. A holder that dies leaves the row, and somebody else takes it when the lease ends.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import case, delete, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import postgres_errors
from workspaces.live.hub import WORK, Hub
from workspaces.model import Who
from workspaces.tables import DueHook

RECONCILE = "reconcile"
"""What the reconciler makes due, besides the hooks of the contract."""
LEASE_SECONDS, RENEW_SECONDS = 10.0, 2.5
WAIT_SECONDS, LOOK_AGAIN_SECONDS = 10.0, 0.05
LONGEST_DELAY = 60.0


@dataclass(frozen=True, slots=True)
class Due:
    """A row that is leased. `attempt` counts from 1. `others` are the hooks that were due before `Leases.hold`."""

    instance_id: str
    hooks: tuple[str, ...]
    version: int
    attempt: int
    who: Who
    others: tuple[str, ...] = ()


class Leases:
    """The leases of one runner, which has a name of its own. They are renewed while `keep_renewing` runs."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.owner = uuid.uuid4().hex
        self._held = set[str]()

    async def claim(self, limit: int, *, reconciling: bool) -> list[Due]:
        """Lease up to `limit` rows that are due: those of the reconciler alone, or the others."""
        if limit <= 0:
            return []
        only = DueHook.hooks == [RECONCILE]
        free = DueHook.due_at <= func.clock_timestamp(), _is_free(), only if reconciling else ~only
        chosen = select(DueHook.instance_id).where(*free).order_by(DueHook.due_at).limit(limit)
        lease = (
            update(DueHook)
            .where(DueHook.instance_id.in_(chosen.with_for_update(skip_locked=True)))
            .values(owner=self.owner, leased_until=_until())
            .returning(*_COLUMNS)
        )
        async with postgres_errors(), AsyncSession(self._engine) as session:
            found = [_due(row) for row in await session.execute(lease)]
            await session.commit()
        self._held |= {due.instance_id for due in found}
        return found

    @asynccontextmanager
    async def hold(self, who: Who, instance_id: str, *hooks: str) -> AsyncGenerator[Due]:
        """Lease the row of an instance now, for whoever waits for it, and make `hooks` due in it.

        At the end the lease is given back. What was not finished by then is due.

        Raises:
            Unavailable: somebody else has it for too long (`busy`).
        """
        due = await self._take(who, instance_id, hooks)
        try:
            yield due
        finally:
            self._held.discard(instance_id)
            with suppress(Unavailable):
                async with postgres_errors(), AsyncSession(self._engine) as session:
                    await self.free(session, [instance_id])
                    await session.commit()

    async def finish_own(self, session: AsyncSession, due: Due) -> None:
        """Finish what was made due by `hold`, with the transaction of the session. What was due before stays due."""
        if not due.others:
            await self.finish(session, [due])
            return
        same = DueHook.instance_id == due.instance_id, DueHook.version == due.version, DueHook.owner == self.owner
        await session.execute(update(DueHook).where(*same).values(hooks=list(due.others)))

    async def release_all(self) -> None:
        """Give all leases back, so that others need not wait for their end."""
        with suppress(Unavailable):
            async with postgres_errors(), AsyncSession(self._engine) as session:
                await self.free(session, list(self._held))
                await session.commit()
        self._held.clear()

    async def finish(self, session: AsyncSession, ended: Sequence[Due]) -> set[str]:
        """Delete the rows of runs that are done, with the transaction of the session; changed ones are due again.

        Returns the ids of those whose lease was not lost.
        """
        self.forget(ended)
        if not ended:
            return set()
        keys = [(due.instance_id, due.version) for due in ended]
        # Always in this order, as the reconciler has it, so that none waits for the other.
        ids = DueHook.instance_id.in_([due.instance_id for due in ended])
        await session.execute(select(DueHook.instance_id).where(ids).order_by(DueHook.instance_id).with_for_update())
        mine = DueHook.owner == self.owner
        done = await session.scalars(
            delete(DueHook)
            .where(mine, tuple_(DueHook.instance_id, DueHook.version).in_(keys))
            .returning(DueHook.instance_id)
        )
        kept = set(done)
        if rest := [due.instance_id for due in ended if due.instance_id not in kept]:
            kept |= await self.free(session, rest)
        return kept

    async def postpone(self, session: AsyncSession, due: Due) -> None:
        """Make a failed run due again, later each time: after 1, 2, 4 … 60 s. If it was changed meanwhile: now."""
        self._held.discard(due.instance_id)
        delay = min(LONGEST_DELAY, 2.0 ** (due.attempt - 1))
        same = DueHook.version == due.version
        later = func.clock_timestamp() + text(f"interval '{delay:g} seconds'")
        await session.execute(
            update(DueHook)
            .where(DueHook.instance_id == due.instance_id, DueHook.owner == self.owner)
            .values(
                owner=None,
                leased_until=None,
                attempt=case((same, due.attempt), else_=0),
                due_at=case((same, later), else_=DueHook.due_at),
            )
        )

    def forget(self, ended: Sequence[Due]) -> None:
        """Renew these leases no more."""
        self._held -= {due.instance_id for due in ended}

    async def keep_renewing(self) -> None:
        """Renew the leases, for ever."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if self._held:
                held = DueHook.owner == self.owner, DueHook.instance_id.in_(self._held)
                renewed = update(DueHook).where(*held).values(leased_until=_until())
                with suppress(Unavailable):
                    async with postgres_errors(), AsyncSession(self._engine) as session:
                        await session.execute(renewed)
                        await session.commit()

    def has_lease(self, instance_id: Any) -> Any:
        """A condition: this runner still has the lease of an instance."""
        return (
            select(DueHook.instance_id).where(DueHook.instance_id == instance_id, DueHook.owner == self.owner).exists()
        )

    async def free(self, session: AsyncSession, instance_ids: Sequence[str]) -> set[str]:
        """End the leases of rows that are due, and wake the runners."""
        mine = DueHook.owner == self.owner, DueHook.instance_id.in_(instance_ids)
        await session.execute(delete(DueHook).where(*mine, DueHook.hooks == []))
        freed = update(DueHook).where(*mine).values(owner=None, leased_until=None).returning(DueHook.instance_id)
        found = set(await session.scalars(freed))
        if found:
            await Hub.tell_in(session, WORK, "hooks", {})
        return found

    async def _take(self, who: Who, instance_id: str, hooks: Sequence[str]) -> Due:
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    if (due := await self._try(who, instance_id, hooks)) is not None:
                        self._held.add(instance_id)
                        return due
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
        raise Unavailable("Mnemosyne is being told about this instance; try again", code="busy")

    async def _try(self, who: Who, instance_id: str, hooks: Sequence[str]) -> Due | None:
        rows = insert(DueHook).values(
            instance_id=instance_id,
            hooks=[],
            correlation=who.correlation,
            actor=who.account,
            owner=self.owner,
            leased_until=_until(),
        )
        lease = rows.on_conflict_do_update(
            index_elements=[DueHook.instance_id],
            set_={"owner": rows.excluded.owner, "leased_until": rows.excluded.leased_until},
            where=_is_free(),
        )
        async with postgres_errors(), AsyncSession(self._engine) as session:
            row = (await session.execute(lease.returning(*_COLUMNS))).one_or_none()
            if row is None:
                return None
            found = _due(row)
            due = replace(found, hooks=tuple({*found.hooks, *hooks}), others=found.hooks, who=who)
            wanted = update(DueHook).where(DueHook.instance_id == instance_id).values(hooks=list(due.hooks))
            await session.execute(wanted)
            await session.commit()
        return due


_COLUMNS = (
    DueHook.instance_id,
    DueHook.hooks,
    DueHook.version,
    DueHook.attempt,
    DueHook.actor,
    DueHook.correlation,
)


def _is_free() -> Any:
    return or_(DueHook.leased_until.is_(None), DueHook.leased_until < func.clock_timestamp())


def _until() -> Any:
    return func.clock_timestamp() + text(f"interval '{LEASE_SECONDS:g} seconds'")


def _due(row: Any) -> Due:
    instance_id, hooks, version, attempt, actor, correlation = row
    return Due(instance_id, tuple(hooks), version, attempt + 1, Who(actor, correlation))
