"""Hears of changes of our teams that others make in Mnemosyne, where it is that of this platform.

Such a change is an event on the broker. The team is due for the reconciler at once, which asks Mnemosyne and pushes our
workspaces again. Without a broker, and with another Mnemosyne, the next cycle notices.
"""

import logging
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.follow import follow
from pallas_bus.transport.reads import Record
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED
from pallas_postgres.engine import postgres_errors
from workspaces.hooks.reconciler import make_due_for_reconciler
from workspaces.hooks.state import load
from workspaces.model import Who
from workspaces.tables import DueHook, RetiredTeam

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TeamEvents:
    """Follows the changes of teams."""

    engine: AsyncEngine

    async def run(self, bus: Bus) -> None:
        """Follow until cancelled."""
        await follow(bus, CHANGES, LIFECYCLE_CHANGED.template.filter(kind="team"), self)

    async def begin(self, made: str, last: int) -> int:
        """Begin with the next change: the reconciler finds what was changed before."""
        return last

    async def take(self, record: Record) -> None:
        """Have a team of ours looked at, unless it was changed to what it should be."""
        try:
            event = LifecycleChanged.model_validate_json(record.data)
        except ValidationError:
            return
        if not await self._is_different(event):
            return
        log.info("a team was changed in Mnemosyne", extra={"team": event.id, "action": event.action})
        async with postgres_errors(), AsyncSession(self.engine) as session:
            await make_due_for_reconciler(session, Who(event.actor, event.correlation), only=event.id)
            await session.commit()

    async def _is_different(self, event: LifecycleChanged) -> bool:
        """Whether a team is ours, and the change is not one that this service makes or wants."""
        state = (await load(self.engine, [event.id])).get(event.id)
        if state is None:
            return event.data.get("active") is True and await self._is_retired(event.id)
        if event.action == "workspaces_updated":
            return set(event.data.get("workspace_ids") or ()) != set(state.workspace_ids)
        return not await self._is_under_way(event)

    async def _is_retired(self, team_id: str) -> bool:
        async with postgres_errors(), AsyncSession(self.engine) as session:
            return await session.get(RetiredTeam, team_id) is not None

    async def _is_under_way(self, event: LifecycleChanged) -> bool:
        """Whether some replica speaks with Mnemosyne about the team for the same request."""
        async with postgres_errors(), AsyncSession(self.engine) as session:
            leased = DueHook.instance_id == event.id, DueHook.owner.is_not(None)
            found = select(DueHook.correlation).where(*leased)
            return await session.scalar(found) == event.correlation

    def caught_up(self) -> None:
        """Nothing to do."""

    def waits(self) -> None:
        """Nothing to do: the reconciler finds what was missed."""
