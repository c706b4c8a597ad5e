"""Hears of changes of our teams in Mnemosyne, where it is that of this platform.

Such a change is an event on the broker. The team is compared at once, unless it was changed to what it should be; so
what this service has done itself is compared once more at most. Without a broker, and with another Mnemosyne, the next
cycle of the reconciler notices.
"""

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
from workspaces.model import Who
from workspaces.reconciling.claims import reconciler
from workspaces.reconciling.reconciler import wake_all
from workspaces.tables import WORKSPACE_IDS, MnemosyneTeam, PallasInstance


@dataclass
class TeamEvents:
    """Follows the changes of teams."""

    engine: AsyncEngine

    async def run(self, bus: Bus) -> None:
        """Follow until cancelled."""
        await follow(bus, CHANGES, LIFECYCLE_CHANGED.template.filter(kind="team"), self)

    async def begin(self, made: str, last: int) -> int:
        """Go on behind the last event: at the start, and after whatever has failed, all teams are compared instead."""
        async with writing(self.engine) as session:
            await wake_all(session, reconciler())
        return last

    async def take(self, record: Record) -> None:
        """Have a team of ours compared, unless it has what it should have."""
        try:
            event = LifecycleChanged.model_validate_json(record.data)
        except ValidationError:
            return
        async with reading(self.engine) as session:
            if await session.get(MnemosyneTeam, event.id) is None:
                return
            attached = await session.scalar(select(WORKSPACE_IDS).where(PallasInstance.id == event.id))
        told = event.data.get("workspace_ids") if event.action == "workspaces_updated" else None
        if told is None or attached is None or set(told) != set(attached):
            async with writing(self.engine) as session:
                await wake_all(session, Who(event.actor, event.correlation), only=event.id)

    def caught_up(self) -> None:
        """Nothing to do."""

    def waits(self) -> None:
        """Nothing to do: the reconciler finds what was missed."""
