"""Fetches the registry of an instance again, and stores what it offers now."""

from collections.abc import Iterable
from dataclasses import dataclass

import anyio
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import PallasError, Unavailable
from pallas_postgres.engine import reading
from workspaces.changes.make import Changes, Decision, Event
from workspaces.model import Who
from workspaces.registries.fetch import Fetcher
from workspaces.registries.read import Listing, read_document
from workspaces.registries.store import store_failure, store_listing
from workspaces.tables import PallasInstance

AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Refresher:
    """Fetches and stores. A registry that does not answer is a warning; its agents stay as they were."""

    engine: AsyncEngine
    changes: Changes
    fetcher: Fetcher

    async def fetch(self, base: str) -> Listing:
        """What the registry at `base` offers.

        Raises:
            RegistryUnreachable: it does not answer, or not with its document.
            Rejected: it is not allowed, or its document is none.
        """
        return read_document(await self.fetcher.fetch(base), self.fetcher.policy)

    async def refresh(self, who: Who, instance_ids: Iterable[str]) -> dict[str, str | None]:
        """Fetch the registries of these instances, ten at once. Returns a warning for each, None if it went well."""
        async with reading(self.engine) as session:
            found = select(PallasInstance.id, PallasInstance.registry_url).where(PallasInstance.id.in_(instance_ids))
            addresses = [(one, base) for one, base in await session.execute(found)]
        warnings = dict[str, str | None]()
        slots = anyio.CapacityLimiter(AT_ONCE)

        async def refresh_one(instance_id: str, base: str) -> None:
            async with slots:
                warnings[instance_id] = await self._refresh(who, instance_id, base)

        async with anyio.create_task_group() as tasks:
            for instance_id, base in addresses:
                tasks.start_soon(refresh_one, instance_id, base)
        return warnings

    async def _refresh(self, who: Who, instance_id: str, base: str) -> str | None:
        try:
            listing = await self.fetch(base)
        except Unavailable:
            raise
        except PallasError as error:
            reason = error.message

            async def fail(session: AsyncSession) -> Decision[None]:
                await store_failure(session, instance_id, reason)
                return Decision(None)

            await self.changes.make(who, fail)
            return reason

        async def store(session: AsyncSession) -> Decision[None]:
            changed = await store_listing(session, instance_id, listing)
            agents = [agent.server_id for agent in listing.agents]
            return Decision(None, (Event("instance", "refreshed", instance_id, {"agents": agents}),) if changed else ())

        await self.changes.make(who, store)
        return None
