"""Instances as they are shown, and what Mnemosyne is not known to have. No view has a token."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_postgres.engine import reading
from workspaces.answers import Deliveries, DeliveryView, DiscoveredAgent, InstanceView
from workspaces.handlers.control import HealthOf
from workspaces.model import JwtState
from workspaces.registries.urls import icon_path
from workspaces.tables import WORKSPACE_IDS, MnemosyneTeam, PallasInstance


def instance_view(
    one: PallasInstance, workspace_ids: Sequence[str], error: str | None, health: HealthOf
) -> InstanceView:
    """An instance that is attached to these workspaces, with the `error` of the last time that it was compared."""
    status = one.pallas_team_mnemosyne_status
    computed = {
        "status": status,
        "jwt": _jwt_state(one),
        "has_agent_token": one.agent_token_encrypted is not None,
        "agents": [discovered(one.registry_url, agent, one.id, health) for agent in one.agents],
        "workspace_ids": workspace_ids,
        "believed": {**one.believed, "error": error} if one.believed else None,
        "drift": drift(one.name, status, one.believed, workspace_ids),
    }
    known = {name: getattr(one, name) for name in InstanceView.model_fields if name not in computed}
    return InstanceView.model_validate(known | computed)


def discovered(base: str, stored: Mapping[str, Any], instance_id: str, health: HealthOf) -> DiscoveredAgent:
    """An agent as it is shown: its icon is a path of this service."""
    agent = DiscoveredAgent.model_validate(stored)
    known = health(instance_id, agent.server_id)
    return agent.model_copy(update={"icon": icon_path(base, agent.icon), "health": known})


def _jwt_state(one: PallasInstance) -> JwtState:
    if one.team_jwt_encrypted is None:
        return "none"
    return "ready" if one.jwt_revealed_at is None else "revealed"


def drift(
    name: str, status: str | None, believed: Mapping[str, Any] | None, workspace_ids: Sequence[str]
) -> str | None:
    """What Mnemosyne believes differently, in a sentence; None if nothing is known to differ."""
    if status != "provisioned" or not believed:
        return None
    if believed.get("active") is None:
        return "The libraries do not know this team."
    if believed["active"] is False:
        return "The libraries have this team as deleted."
    theirs = set[str](believed.get("workspace_ids") or ())
    parts = [
        *_named("The libraries have not been told yet of", set(workspace_ids) - theirs),
        *_named("The libraries still have", theirs - set(workspace_ids)),
    ]
    if believed.get("name") not in (None, name):
        parts.append(f"The libraries have this team as {believed['name']!r}.")
    if believed.get("jwt_is_current") is False:
        parts.append("The JWT stored here is not the team's current one: it was rotated elsewhere. Rotate it here.")
    return " ".join(parts) or None


_SHOWN = 5


def _named(what: str, workspaces: set[str]) -> list[str]:
    if not workspaces:
        return []
    shown = ", ".join(sorted(workspaces)[:_SHOWN])
    more = f" and {len(workspaces) - _SHOWN} more" if len(workspaces) > _SHOWN else ""
    return [f"{what} {shown}{more}."]


async def list_deliveries(engine: AsyncEngine, instance_id: str | None, limit: int) -> Deliveries:
    """Teams that are not known to be in sync, of one instance or of all."""
    team, one = MnemosyneTeam, PallasInstance
    joined = select(team, one, WORKSPACE_IDS).outerjoin(one, one.id == team.id)
    found = joined.where(team.since.is_not(None)).order_by(team.since, team.id)
    if instance_id is not None:
        found = found.where(team.id == instance_id)
    async with reading(engine) as session:
        waiting = await session.scalar(select(func.count()).select_from(found.subquery())) or 0
        shown = tuple(_view(*row) for row in await session.execute(found.limit(limit)))
    return Deliveries(deliveries=shown, waiting=waiting)


def _view(team: MnemosyneTeam, one: PallasInstance | None, workspace_ids: list[str]) -> DeliveryView:
    if one is None:
        difference = "The libraries may still have this team, which was deleted here."
    elif one.pallas_team_mnemosyne_status != "provisioned":
        difference = "The libraries do not have this team yet."
    else:
        difference = drift(one.name, one.pallas_team_mnemosyne_status, one.believed, workspace_ids)
    assert team.since is not None
    return DeliveryView(
        instance_id=team.id,
        instance_name=one.name if one else team.name,
        since=team.since,
        difference=difference,
        error=team.error,
        tries=team.tries,
        next_try_at=team.due_at,
        actor=team.actor,
        correlation=team.correlation,
    )
