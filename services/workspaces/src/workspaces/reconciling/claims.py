"""Who compares which team: claims on rows of `mnemosyne_teams`, over all replicas.

Whoever has claimed a team reads under the claim what Mnemosyne should have, and nobody else speaks with Mnemosyne about
the team meanwhile. A claim that is not renewed ends after 10 s; nothing that its holder does afterwards is stored, and
since it is then unknown what it did last, the team is compared again.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import exists, func, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Superseded, Unavailable
from pallas_postgres.engine import reading, writing
from workspaces.changes.make import Wake, lock_rows, wake
from workspaces.live.hub import ALL, WORK, Hub
from workspaces.model import TeamStatus, Who
from workspaces.tables import WORKSPACE_IDS, MnemosyneTeam, PallasInstance

CLAIMED, RENEW_SECONDS = text("interval '10 seconds'"), 2.5
TRIES, LOOK_AGAIN_SECONDS = 200, 0.05
"""How often somebody who waits for a claim looks whether it is free."""
_CONCLUDE = text("""
    with given as (
        select * from jsonb_to_recordset(:rows) as given(id text, version int, error text, delay float, believed jsonb,
                                                         pushed text[], status text, reason text)
    ), mine as (
        update mnemosyne_teams team set claim = null, claimed_until = null, error = given.error,
            since = case when given.error is not null then coalesce(since, clock_timestamp())
                         when team.changed > given.version then since end,
            revokes = revokes and (given.error is not null or team.changed > given.version),
            tries = case when given.error is null or team.changed > given.version then 0 else tries + 1 end,
            due_at = case when team.version > given.version then clock_timestamp()
                          else clock_timestamp() + make_interval(secs => given.delay) end
        from given where team.id = given.id and team.claim = :claim
        returning team.id
    ), stored as (
        update pallas_instances one set
            believed = coalesce(given.believed, one.believed),
            pushed_workspaces = coalesce(given.pushed, one.pushed_workspaces),
            pushed_at = case when given.pushed is null then one.pushed_at else clock_timestamp() end,
            pallas_team_mnemosyne_status = coalesce(given.status, one.pallas_team_mnemosyne_status),
            status_reason = case when given.status is null then one.status_reason else given.reason end,
            status_at = case when given.status is null then one.status_at else clock_timestamp() end
        from given join mine on mine.id = given.id where one.id = given.id
    )
    select id from mine
""")
"""Stores how comparing these teams has ended, and ends the claim, for those of them that are still claimed."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A team under the claim `token`: as the reconciler knows it, its `instance` (None if that was deleted), and the
    workspaces that it is attached to, in order.
    """

    token: str
    team: MnemosyneTeam
    instance: PallasInstance | None
    workspace_ids: list[str]

    @property
    def id(self) -> str:
        """The id of the instance and of the team."""
        return self.team.id

    @property
    def name(self) -> str:
        """Its name, or that which it had when it was deleted."""
        return self.instance.name if self.instance is not None else self.team.name

    @property
    def who(self) -> Who:
        """The sender of the last change."""
        return Who(self.team.actor, self.team.correlation)


def reconciler() -> Who:
    """The reconciler as the sender of what nobody has changed here, with a new correlation id."""
    return Who("reconciler", uuid.uuid4().hex)


def status_values(status: TeamStatus, reason: str | None = None) -> dict[str, Any]:
    """The columns of a status."""
    return {"pallas_team_mnemosyne_status": status, "status_reason": reason, "status_at": func.clock_timestamp()}


class Claims:
    """The claims of a process. They are renewed while `keep_renewing` runs."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._tokens = set[str]()

    async def take(self, limit: int) -> list[Claimed]:
        """Claim up to `limit` teams that are due: first those that lose a right, then those that were changed here."""
        team = MnemosyneTeam
        due = select(team.id).where(team.due_at <= func.clock_timestamp(), _is_free())
        first = due.order_by(team.revokes.desc(), team.since.is_(None), team.due_at).limit(limit)
        return await self._claim(team.id.in_(first.with_for_update(skip_locked=True))) if limit > 0 else []

    @asynccontextmanager
    async def hold(self, who: Who, instance_id: str, *, changing: bool) -> AsyncGenerator[Claimed]:
        """Claim the team of an instance now, for `who`, who waits for it.

        If the block is `changing` something, the team is compared again unless `conclude` was called in it.

        Raises:
            Unavailable: somebody else has it for too long (`busy`), or Postgres cannot be used right now.
        """
        for _ in range(TRIES):
            if claimed := await self._claim(MnemosyneTeam.id == instance_id, _is_free(), changed_by=changing and who):
                break
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        else:
            raise Unavailable("Mnemosyne is being told about this instance; try again", code="busy")
        try:
            yield claimed[0]
        finally:
            await self.release(claimed[0].token)

    async def store(self, one: Claimed, values: Mapping[str, Any]) -> None:
        """Write into the row of an instance, and tell browsers.

        Raises:
            Superseded: the claim was lost, or the instance deleted.
        """
        async with writing(self._engine) as session:
            await self.store_in(session, one, values)

    async def store_in(self, session: AsyncSession, one: Claimed, values: Mapping[str, Any]) -> None:
        """The same with the transaction of the session."""
        mine = exists().where(MnemosyneTeam.id == one.id, MnemosyneTeam.claim == one.token)
        row = update(PallasInstance).where(PallasInstance.id == one.id, mine).values(**values)
        if await session.scalar(row.returning(PallasInstance.id)) is None:
            raise Superseded("somebody else tells Mnemosyne about this instance now, or it was deleted")
        await Hub.tell_in(session, ALL, "instance", {"id": one.id})

    async def conclude(self, token: str, rows: Collection[Mapping[str, Any]], told: Collection[str]) -> set[str]:
        """Store how comparing teams has ended (see `_CONCLUDE`), and tell browsers of those in `told`.

        Returns the ids of the teams whose claim was not lost.
        """
        ids = [row["id"] for row in rows]
        async with writing(self._engine) as session:
            await lock_rows(session, PallasInstance, PallasInstance.id.in_(ids))
            await lock_rows(session, MnemosyneTeam, MnemosyneTeam.id.in_(ids))
            kept = set(await session.scalars(_CONCLUDE, {"rows": json.dumps(rows), "claim": token}))
            for instance_id in kept.intersection(told):
                await Hub.tell_in(session, ALL, "instance", {"id": instance_id})
        self._tokens.discard(token)
        return kept

    async def compare_again(self, one: Claimed) -> None:
        """Have it done once more by whoever may: what was done last without a claim is unknown."""
        async with writing(self._engine) as session:
            pending = update(PallasInstance).where(PallasInstance.id == one.id)
            await session.execute(pending.values(**status_values("pending")))
            await wake(session, one.who, Wake(one.id))
            mine = update(MnemosyneTeam).where(MnemosyneTeam.id == one.id, MnemosyneTeam.claim == one.token)
            await session.execute(mine.values(claim=None, claimed_until=None))

    async def release(self, token: str) -> None:
        """End a claim that was not concluded, so that others need not wait for its end."""
        if token not in self._tokens:
            return
        self._tokens.discard(token)
        is_mine = MnemosyneTeam.claim == token
        mine = update(MnemosyneTeam).where(is_mine).values(claim=None, claimed_until=None)
        with suppress(Unavailable):
            async with writing(self._engine) as session:
                await lock_rows(session, MnemosyneTeam, is_mine)
                if (await session.scalars(mine.returning(MnemosyneTeam.id))).all():
                    await Hub.tell_in(session, WORK, "teams", {})

    async def keep_renewing(self) -> None:
        """Renew the claims, for ever."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            is_mine = MnemosyneTeam.claim.in_(self._tokens)
            mine = update(MnemosyneTeam).where(is_mine)
            with suppress(Unavailable):
                async with writing(self._engine) as session:
                    await lock_rows(session, MnemosyneTeam, is_mine)
                    await session.execute(mine.values(claimed_until=func.clock_timestamp() + CLAIMED))

    async def _claim(self, *which: Any, changed_by: Who | Literal[False] = False) -> list[Claimed]:
        """Claim teams, and read them as they are then, behind every change that has woken them."""
        token = uuid.uuid4().hex
        claim = update(MnemosyneTeam).where(*which).returning(MnemosyneTeam.id)
        async with writing(self._engine) as session:
            values = {"claim": token, "claimed_until": func.clock_timestamp() + CLAIMED}
            ids = (await session.scalars(claim.values(**values))).all()
            if changed_by:
                await wake(session, changed_by, *(Wake(each) for each in ids))
        if not ids:
            return []
        joined = select(MnemosyneTeam, PallasInstance, WORKSPACE_IDS).where(MnemosyneTeam.claim == token)
        async with reading(self._engine) as session:
            found = await session.execute(joined.outerjoin(PallasInstance, PallasInstance.id == MnemosyneTeam.id))
            claimed = [Claimed(token, *row) for row in found]
        self._tokens.add(token)
        return claimed


def _is_free() -> Any:
    return or_(MnemosyneTeam.claim.is_(None), MnemosyneTeam.claimed_until < func.clock_timestamp())
