"""Fetches the registry of an instance again, and stores what it offers now."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import anyio
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import PallasError
from pallas_postgres.engine import reading, writing
from workspaces.changes.make import Changes, Decision, Event
from workspaces.model import Who
from workspaces.registries.fetch import Fetcher
from workspaces.registries.store import listing_values, store_fetches, store_listing
from workspaces.tables import PallasInstance

AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Refresher:
    """Fetches and stores. A registry that does not answer is a warning; its agents stay as they were."""

    engine: AsyncEngine
    changes: Changes
    fetcher: Fetcher

    async def refresh(self, who: Who, instance_ids: Collection[str]) -> dict[str, str | None]:
        """Fetch the registries of these instances, ten at once. Returns a warning for each, None if it went well.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        columns = PallasInstance.registry_url, PallasInstance.agents, PallasInstance.unusable, PallasInstance.namespace
        async with reading(self.engine) as session:
            found = select(PallasInstance.id, PallasInstance.last_fetch_error, *columns)
            known = [_Known(*row) for row in await session.execute(found.where(PallasInstance.id.in_(instance_ids)))]
        slots = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for one in known:
                tasks.start_soon(self._refresh, who, one, slots)
        kept = [one for one in known if one.same or one.warning is not None]
        errors = {one.id: one.warning for one in kept if one.warning != one.before}
        async with writing(self.engine) as session:
            await store_fetches(session, [one.id for one in known if one.same], errors)
        return {one.id: one.warning for one in known}

    async def _refresh(self, who: Who, one: "_Known", slots: anyio.CapacityLimiter) -> None:
        async with slots:
            try:
                listing = await self.fetcher.fetch(one.base)
            except PallasError as error:
                one.warning = error.message
                return
        if listing_values(listing) == {"agents": one.agents, "unusable": one.unusable, "namespace": one.namespace}:
            one.same = True
            return

        async def store(session: AsyncSession) -> Decision[None]:
            known = await store_listing(session, one.id, listing)
            agents = [agent.server_id for agent in listing.agents]
            return Decision(None, (Event("instance", "refreshed", one.id, {"agents": agents}),) if known else ())

        await self.changes.make(who, store)


@dataclass
class _Known:
    """An instance before it is fetched, and how that went: `same` as before, or with a `warning`."""

    id: str
    before: str | None
    base: str
    agents: list[Any]
    unusable: list[Any]
    namespace: str | None
    same: bool = False
    warning: str | None = None
