"""What an operator waits for: provisioning, asking and rotating now, one after the other with the hooks."""

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Conflict, Superseded
from pallas_postgres.engine import writing
from workspaces.changes.make import Changes, Decision, Event
from workspaces.hooks.conclude import conclude, redo
from workspaces.hooks.due import Due, Leases, finish_own
from workspaces.hooks.settle import GONE, Ended, Settler, log_action
from workspaces.hooks.state import State, believed_of, jwt_values, load, status_values, write, write_in
from workspaces.mnemosyne.reading import MnemosyneAway, MnemosyneRefused, NoSuchTeam, TeamGone
from workspaces.model import Who, no_instance

log = logging.getLogger(__name__)

REGISTERED = "on_pallas_registered"
ROTATING = "the JWT is being replaced"


@dataclass(frozen=True, slots=True)
class Now:
    """Speaks with Mnemosyne while the request waits. An id that no instance has is `NotFound`."""

    engine: AsyncEngine
    changes: Changes
    leases: Leases
    settler: Settler

    async def provision(self, who: Who, instance_id: str) -> Ended:
        """Provision the team of an instance if it is not, and push its workspaces. How it ended is in its row, too.

        Raises:
            Unavailable: it is being done already, or Postgres cannot be used.
        """
        async with self._holding(who, instance_id, REGISTERED) as (due, state):
            return await self._settle(due, state)

    async def check(self, who: Who, instance_id: str) -> None:
        """Ask Mnemosyne what it believes about the team of an instance, and store it.

        Raises:
            MnemosyneAway, MnemosyneRefused: Mnemosyne did not answer.
        """
        async with self._holding(who, instance_id) as (due, state):
            team = await self.settler.teams.get(instance_id, correlation=who.correlation)
            believed = believed_of(team, jwt_is_current=self.settler.is_current(state, team))
            await write(self.engine, due, {"believed": believed})

    async def rotate(self, who: Who, instance_id: str) -> None:
        """Replace the JWT of an instance's team. The new one can be seen once.

        If it is not known afterwards whether Mnemosyne has replaced it, the status is pending, and the hooks find out.

        Raises:
            Conflict: the team was deleted in Mnemosyne (`team_deleted`).
            MnemosyneAway, MnemosyneRefused: Mnemosyne did not do it.
        """
        async with self._holding(who, instance_id, REGISTERED) as (due, state):
            if state.status == "provisioned":
                await self._rotate(due, state)
            elif "jwt" not in await self._settle_or_raise(due, state):
                raise Conflict("the team was provisioned just now, with its old JWT; rotate it again", code="again")

    @asynccontextmanager
    async def _holding(self, who: Who, instance_id: str, *hooks: str) -> AsyncGenerator[tuple[Due, State]]:
        """Hold the lease of an instance, which is read again under it."""
        await self._find(instance_id)
        async with self.leases.hold(who, instance_id, *hooks) as due:
            yield due, await self._find(instance_id)

    async def _settle(self, due: Due, state: State) -> Ended:
        try:
            ended = await self.settler.settle(due, state)
        except Superseded:
            await redo(self.engine, due)
            raise
        await conclude(self.engine, [ended])
        return ended

    async def _settle_or_raise(self, due: Due, state: State) -> Mapping[str, Any]:
        """Settle. Returns what was done."""
        ended = await self._settle(due, state)
        if ended.error is not None:
            raise MnemosyneAway(ended.error) if ended.away else MnemosyneRefused(ended.error)
        return ended.data

    async def _rotate(self, due: Due, state: State) -> None:
        await write(self.engine, due, status_values("pending", ROTATING))
        try:
            jwt = await self.settler.teams.rotate(state.id, correlation=due.who.correlation)
        except NoSuchTeam:
            # Mnemosyne has lost the team: it is made again, with a new JWT.
            await self._settle_or_raise(due, replace(state, status="failed", sealed=None))
            return
        except TeamGone as error:
            await self._undo(due, status_values("failed", GONE))
            raise Conflict(GONE, code="team_deleted") from error
        except MnemosyneAway as error:
            if not error.sent:
                await self._undo(due, status_values("provisioned"))
            raise
        except MnemosyneRefused:
            await self._undo(due, status_values("provisioned"))
            raise
        try:
            await self.changes.make(due.who, lambda session: self._store(session, due, state, jwt))
        except Superseded:
            await redo(self.engine, due)
            raise
        log_action("rotated", due.who, state.id, state.name)

    async def _store(self, session: AsyncSession, due: Due, state: State, jwt: str) -> Decision[None]:
        values = jwt_values(self.settler.vault.seal(jwt))
        if state.believed:
            values["believed"] = {**state.believed, "jwt_is_current": True}
        await write_in(session, due, values)
        await finish_own(session, due)
        return Decision(None, (Event("instance", "rotated", state.id, {"name": state.name}),))

    async def _undo(self, due: Due, values: Mapping[str, Any]) -> None:
        """Nothing was replaced: write this status, and finish."""
        async with writing(self.engine) as session:
            await write_in(session, due, values)
            await finish_own(session, due)

    async def _find(self, instance_id: str) -> State:
        state = (await load(self.engine, [instance_id])).get(instance_id)
        if state is None:
            raise no_instance(instance_id)
        return state
