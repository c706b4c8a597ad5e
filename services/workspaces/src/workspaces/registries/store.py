"""Stores what a registry offers: in the instance's row, and as the connections of all workspaces it is attached to."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from workspaces.answers import DiscoveredAgent
from workspaces.live.hub import ALL, Hub
from workspaces.registries.read import Listing
from workspaces.tables import AgentConnection, Assignment, PallasInstance


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
    await Hub.tell_in(session, ALL, "instance", {"id": instance_id})
    return True


async def store_fetches(session: AsyncSession, unchanged: Collection[str], errors: Mapping[str, str | None]) -> None:
    """Store that these registries offer the same as before, and the errors of fetching that are new or have ended."""
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
    return {
        "workspace_id": workspace_id,
        "pallas_instance_id": instance_id,
        "server_id": agent.server_id,
        "name": agent.name,
        "title": agent.title,
        "description": agent.description,
        "icon": agent.icon,
        "url": agent.url,
        **agent.capabilities.model_dump(),
    }
