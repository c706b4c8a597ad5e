"""Fetches the registry of an instance again, and stores what it offers now: in the row of the instance, and as the
connections of all workspaces that it is attached to.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import PallasError
from pallas_postgres.engine import reading, writing
from workspaces.answers import DiscoveredAgent
from workspaces.changes.make import Changes, Decision, Event, lock_rows
from workspaces.live.hub import ALL, Hub
from workspaces.model import Who
from workspaces.registries.fetch import Fetcher
from workspaces.registries.read import Listing
from workspaces.tables import AgentConnection, Assignment, PallasInstance

AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Refresher:
    """Fetches and stores. A registry that does not answer is a warning; its agents stay as they were."""

    engine: AsyncEngine
    changes: Changes
    fetcher: Fetcher

    async def refresh(self, who: Who, instance_ids: Collection[str]) -> dict[str, str | None]:
        """Fetch the registries of these instances, ten at once. Returns a warning for each, None if it went well."""
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


def listing_values(listing: Listing) -> dict[str, Any]:
    """The columns of an instance that hold a listing."""
    return {
        "agents": [agent.model_dump(mode="json", exclude={"health"}) for agent in listing.agents],
        "unusable": [entry.model_dump(mode="json") for entry in listing.unusable],
        "namespace": listing.namespace,
    }


async def store_listing(session: AsyncSession, instance_id: str, listing: Listing) -> bool:
    """Store a listing and replace the connections. Returns whether the instance is still there."""
    values = listing_values(listing)
    fetched = {"last_fetched_at": func.clock_timestamp(), "last_fetch_error": None}
    row = update(PallasInstance).where(PallasInstance.id == instance_id).values(**values, **fetched)
    if await session.scalar(row.returning(PallasInstance.id)) is None:
        return False
    await connect(session, instance_id, values["agents"])
    return True


async def store_fetches(session: AsyncSession, unchanged: Collection[str], errors: Mapping[str, str | None]) -> None:
    """Store that these registries offer the same as before, and the errors of fetching that are new or have ended."""
    await lock_rows(session, PallasInstance, PallasInstance.id.in_([*unchanged, *errors]))
    if unchanged:
        same = update(PallasInstance).where(PallasInstance.id.in_(unchanged))
        await session.execute(same.values(last_fetched_at=func.clock_timestamp()))
    for instance_id, error in sorted(errors.items()):
        row = update(PallasInstance).where(PallasInstance.id == instance_id)
        await session.execute(row.values(last_fetch_error=error))
        await Hub.tell_in(session, ALL, "instance", {"id": instance_id})


async def connect(session: AsyncSession, instance_id: str, agents: list[Mapping[str, Any]]) -> None:
    """Replace the connections to these agents in all workspaces that the instance is attached to."""
    await session.execute(delete(AgentConnection).where(AgentConnection.pallas_instance_id == instance_id))
    attached = select(Assignment.workspace_id).where(Assignment.pallas_instance_id == instance_id)
    workspaces = (await session.scalars(attached)).all()
    rows = [_connection(workspace, instance_id, agent) for workspace in workspaces for agent in agents]
    if rows:
        await session.execute(insert(AgentConnection), rows)
    await Hub.tell_in(session, ALL, "agents", {})


def _connection(workspace_id: str, instance_id: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    agent = DiscoveredAgent.model_validate(stored)
    described = agent.model_dump(
        include={"server_id", "name", "title", "description", "icon", "url", "entry", "starters"}
    )
    of = {"workspace_id": workspace_id, "pallas_instance_id": instance_id}
    return {**of, **described, **agent.capabilities.model_dump()}
