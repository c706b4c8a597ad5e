"""Rows of `due_hooks`, and the right to speak with Mnemosyne about one instance: a lease on its row.

Whoever holds it tells Mnemosyne what the tables say at that moment. The row is deleted at the end, unless a change was
made meanwhile: then it is due again. A holder that dies leaves the row, and somebody else takes it when the lease ends.
Each lease has an owner of its own, so nothing that its holder does touches a later lease of the same row.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import case, delete, func, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import writing
from workspaces.live.hub import WORK, Hub
from workspaces.model import Who
from workspaces.tables import DueHook

RECONCILE = "reconcile"
"""What the reconciler makes due, besides the hooks of the contract."""
LONGEST_DELAY = 60.0


def reconciler() -> Who:
    """The reconciler as the sender of what it makes due, with a new correlation id."""
    return Who("reconciler", uuid.uuid4().hex)


async def count_waiting(session: AsyncSession) -> int:
    """How many teams Mnemosyne has yet to be told about because of a change."""
    return await session.scalar(select(func.count()).where(DueHook.hooks != [RECONCILE])) or 0


@dataclass(frozen=True, slots=True)
class Due:
    """A row that is leased. `attempt` counts from 1. `others` are the hooks that were due before `Leases.hold`."""

    instance_id: str
    owner: str
    hooks: tuple[str, ...]
    version: int
    attempt: int
    who: Who
    others: tuple[str, ...] = ()

    @property
    def is_leased(self) -> Any:
        """A condition: the lease was not lost."""
        mine = DueHook.instance_id == self.instance_id, DueHook.owner == self.owner
        return select(DueHook.instance_id).where(*mine).exists()


async def finish(session: AsyncSession, ended: Sequence[Due]) -> None:
    """Delete the rows of runs that are done, with the transaction of the session. Changed ones are due again."""
    if not ended:
        return
    keys = [(due.instance_id, due.owner, due.version) for due in ended]
    # Always in this order, as the reconciler has it, so that none waits for the other.
    ids = DueHook.instance_id.in_([due.instance_id for due in ended])
    await session.execute(select(DueHook.instance_id).where(ids).order_by(DueHook.instance_id).with_for_update())
    done = tuple_(DueHook.instance_id, DueHook.owner, DueHook.version).in_(keys)
    await session.execute(delete(DueHook).where(done))
    await free(session, ended)


async def finish_own(session: AsyncSession, due: Due) -> None:
    """Finish what was made due by `hold`, with the transaction of the session. What was due before stays due."""
    if not due.others:
        await finish(session, [due])
        return
    same = DueHook.instance_id == due.instance_id, DueHook.version == due.version, DueHook.owner == due.owner
    await session.execute(update(DueHook).where(*same).values(hooks=list(due.others)))


async def free(session: AsyncSession, ended: Sequence[Due]) -> None:
    """End leases, with the transaction of the session. The runners are woken for what is still due."""
    keys = [(due.instance_id, due.owner) for due in ended]
    mine = tuple_(DueHook.instance_id, DueHook.owner).in_(keys)
    await session.execute(delete(DueHook).where(mine, DueHook.hooks == []))
    freed = update(DueHook).where(mine).values(owner=None, leased_until=None).returning(DueHook.instance_id)
    if (await session.scalars(freed)).all():
        await Hub.tell_in(session, WORK, "hooks", {})


async def postpone(session: AsyncSession, due: Due) -> None:
    """Make a failed run due again, later each time: after 1, 2, 4 … 60 s. If it was changed meanwhile: now."""
    delay = min(LONGEST_DELAY, 2.0 ** (due.attempt - 1))
    same = DueHook.version == due.version
    later = func.clock_timestamp() + text(f"interval '{delay:g} seconds'")
    await session.execute(
        update(DueHook)
        .where(DueHook.instance_id == due.instance_id, DueHook.owner == due.owner)
        .values(
            owner=None,
            leased_until=None,
            attempt=case((same, due.attempt), else_=0),
            due_at=case((same, later), else_=DueHook.due_at),
        )
    )


LEASE_SECONDS, RENEW_SECONDS = 10.0, 2.5
WAIT_SECONDS, LOOK_AGAIN_SECONDS = 10.0, 0.05


class Leases:
    """The leases of a replica. They are renewed while `keep_renewing` runs."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._held = dict[str, Due]()

    async def claim(self, limit: int, *, reconciling: bool) -> list[Due]:
        """Lease up to `limit` rows that are due: those of the reconciler alone, or the others."""
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
