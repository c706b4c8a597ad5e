"""Hears of changes of our teams that others make in Mnemosyne, where it is that of this platform.

Such a change is an event on the broker. The team is due for the reconciler at once, which asks Mnemosyne and pushes our
workspaces again. Without a broker, and with another Mnemosyne, the next cycle notices.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.follow import follow
from pallas_bus.transport.reads import Record
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED
from pallas_postgres.engine import reading, writing
from workspaces.hooks.due import reconciler
from workspaces.hooks.reconciler import make_due_for_reconciler
from workspaces.hooks.state import load
from workspaces.model import Who
from workspaces.tables import Change, RetiredTeam

log = logging.getLogger(__name__)

RECENT = 1000
"""Among so many changes are those of other replicas that events may be about."""


@dataclass
class TeamEvents:
    """Follows the changes of teams. `has_sent` says whether this replica has sent a request with a correlation id."""

    engine: AsyncEngine
    has_sent: Callable[[str], bool]
    _made: str = ""
    _position: int = 0

    async def run(self, bus: Bus) -> None:
        """Follow until cancelled."""
        await follow(bus, CHANGES, LIFECYCLE_CHANGED.template.filter(kind="team"), self)

    async def begin(self, made: str, last: int) -> int:
        """The position after which to go on. At the start, and in a new stream, all teams are looked at instead."""
        if made == self._made and self._position <= last:
            return self._position
        async with writing(self.engine) as session:
            await make_due_for_reconciler(session, reconciler())
        self._made, self._position = made, last
        return last

    async def take(self, record: Record) -> None:
        """Have a team of ours looked at, unless it was changed to what it should be."""
        with suppress(ValidationError):
            await self._take(LifecycleChanged.model_validate_json(record.data))
        self._position = record.seq

    async def _take(self, event: LifecycleChanged) -> None:
        if not await self._is_different(event):
            return
        log.info("a team was changed in Mnemosyne", extra={"team": event.id, "action": event.action})
        async with writing(self.engine) as session:
            await make_due_for_reconciler(session, Who(event.actor, event.correlation), only=event.id)

    async def _is_different(self, event: LifecycleChanged) -> bool:
        """Whether a team is ours, and was changed by others to what it should not be."""
        if self.has_sent(event.correlation):
            return False
        state = (await load(self.engine, [event.id])).get(event.id)
        pushed = set(event.data.get("workspace_ids") or ()) if event.action == "workspaces_updated" else None
        if state is not None and pushed == set(state.workspace_ids):
            return False
        async with reading(self.engine) as session:
            if state is None and await session.get(RetiredTeam, event.id) is None:
                return False
            recent = select(Change.correlation).order_by(Change.number.desc()).limit(RECENT).subquery()
            ours = select(recent.c.correlation).where(recent.c.correlation == event.correlation).limit(1)
            return await session.scalar(ours) is None

    def caught_up(self) -> None:
        """Nothing to do."""

    def waits(self) -> None:
        """Nothing to do: the reconciler finds what was missed."""
