"""Rows of `due_hooks`: how one that is leased ends.

Each lease has an owner of its own, so nothing that its holder does touches a later lease of the same row.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, delete, func, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

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
