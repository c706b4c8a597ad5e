"""Stores what a registry offers: in the instance's row, and as the connections of all workspaces it is attached to."""

from collections.abc import Mapping
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
    """Store a listing and replace the connections. Returns whether something has changed, or None of it is known."""
    values = listing_values(listing)
    columns = [getattr(PallasInstance, name) for name in values]
    before = (await session.execute(select(*columns).where(PallasInstance.id == instance_id))).one_or_none()
    if before is None:
        return False
    changed = dict(before._mapping) != values  # pyright: ignore[reportPrivateUsage]
    fetched = {"last_fetched_at": func.clock_timestamp(), "last_fetch_error": None}
    row = update(PallasInstance).where(PallasInstance.id == instance_id)
    await session.execute(row.values(**fetched, **(values if changed else {})))
    await Hub.tell_in(session, ALL, "instance", {"id": instance_id})
    if changed:
        await connect(session, instance_id, values["agents"])
    return changed


async def store_failure(session: AsyncSession, instance_id: str, reason: str) -> None:
    """Store that the registry could not be fetched. Its agents stay as they were."""
    await session.execute(
        update(PallasInstance).where(PallasInstance.id == instance_id).values(last_fetch_error=reason)
    )
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
