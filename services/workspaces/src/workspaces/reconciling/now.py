"""What an operator waits for: comparing, asking and rotating now, in turn with the reconciler."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Conflict, Superseded
from pallas_postgres.engine import reading
from workspaces.changes.make import Changes, Decision, Event
from workspaces.mnemosyne.reading import MnemosyneAway, MnemosyneRefused, NoSuchTeam, TeamGone
from workspaces.model import Who, no_instance
from workspaces.reconciling.claims import Claimed, Claims, status_values
from workspaces.reconciling.sync import GONE, Synced, Syncer, log_action
from workspaces.tables import PallasInstance

ROTATING = "the JWT is being replaced"


@dataclass(frozen=True, slots=True)
class Now:
    """Speaks with Mnemosyne while the request waits. An id that no instance has is `NotFound`.

    All raise `Unavailable` if the team is compared by somebody else for too long, or Postgres cannot be used, and
    `Superseded` if the claim was lost; the team is then compared again.
    """

    engine: AsyncEngine
    changes: Changes
    claims: Claims
    syncer: Syncer

    async def sync(self, who: Who, instance_id: str) -> Synced:
        """Compare the team of an instance, and put what differs. How it ended is stored, too."""
        async with self._holding(who, instance_id, changing=True) as (one, _):
            return await self._sync(one)

    async def check(self, who: Who, instance_id: str) -> None:
        """Ask Mnemosyne what it has about the team of an instance, and store it.

        Raises:
            MnemosyneAway, MnemosyneRefused: Mnemosyne did not answer.
        """
        async with self._holding(who, instance_id, changing=False) as (one, _):
            _, believed = await self.syncer.look(one, who.correlation)
            await self.claims.store(one, {"believed": believed})

    async def rotate(self, who: Who, instance_id: str) -> None:
        """Replace the JWT of an instance's team. The new one can be seen once.

        If it is not known afterwards whether Mnemosyne has replaced it, the status is pending, and the reconciler finds
        out.

        Raises:
            Conflict: the team was deleted in Mnemosyne (`team_deleted`).
            MnemosyneAway, MnemosyneRefused: Mnemosyne did not do it.
        """
        async with self._holding(who, instance_id, changing=True) as (one, instance):
            if instance.pallas_team_mnemosyne_status == "provisioned" and await self._rotate(one, instance):
                return
            # Mnemosyne does not have the team: it is made, with a new JWT.
            instance.pallas_team_mnemosyne_status = "failed"
            synced = await self._sync(one)
            if synced.error is not None:
                raise (
                    MnemosyneRefused(synced.error)
                    if synced.delay is None
                    else MnemosyneAway(synced.error, code=synced.code)
                )
            if not synced.has_new_jwt:
                raise Conflict("the team was provisioned just now, with its old JWT; rotate it again", code="again")

    @asynccontextmanager
    async def _holding(
        self, who: Who, instance_id: str, *, changing: bool
    ) -> AsyncGenerator[tuple[Claimed, PallasInstance]]:
        async with reading(self.engine) as session:
            if await session.get(PallasInstance, instance_id) is None:
                raise no_instance(instance_id)
        async with self.claims.hold(who, instance_id, changing=changing) as one:
            if one.instance is None:
                raise no_instance(instance_id)
            yield one, one.instance

    async def _sync(self, one: Claimed) -> Synced:
        for synced in await self.syncer.sync([one]):
            return synced
        raise Superseded("somebody else tells Mnemosyne about this instance now, or it was deleted")

    async def _rotate(self, one: Claimed, instance: PallasInstance) -> bool:
        """Replace the JWT. Returns False if Mnemosyne does not know the team."""
        await self.claims.store(one, status_values("pending", ROTATING))
        try:
            jwt = await self.syncer.teams.rotate(one.id, correlation=one.who.correlation)
        except NoSuchTeam:
            return False
        except TeamGone as error:
            await self.claims.store(one, status_values("failed", GONE))
            raise Conflict(GONE, code="team_deleted") from error
        except (MnemosyneAway, MnemosyneRefused) as error:
            if not (isinstance(error, MnemosyneAway) and error.sent):
                await self.claims.store(one, status_values("provisioned"))
            raise
        believed = {**instance.believed, "jwt_is_current": True} if instance.believed else None

        async def store(session: AsyncSession) -> Decision[None]:
            await self.claims.store_in(session, one, {**self.syncer.jwt_values(jwt), "believed": believed})
            return Decision(None, (Event("instance", "rotated", one.id, {"name": one.name}),))

        try:
            await self.changes.make(one.who, store)
        except Superseded:
            await self.claims.compare_again(one)
            raise
        log_action("rotated", one)
        return True
