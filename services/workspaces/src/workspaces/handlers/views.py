"""Instances as they are shown. No view has a token."""

from collections.abc import Mapping, Sequence
from typing import Any

from workspaces.answers import Believed, DiscoveredAgent, InstanceView, UnusableEntry
from workspaces.handlers.parts import HealthOf
from workspaces.model import JwtState
from workspaces.registries.icons import icon_path
from workspaces.tables import PallasInstance


def instance_view(one: PallasInstance, workspace_ids: Sequence[str], health: HealthOf) -> InstanceView:
    """An instance that is attached to these workspaces."""
    status: Any = one.pallas_team_mnemosyne_status
    pushed = tuple(one.pushed_workspaces) if one.pushed_workspaces is not None else None
    return InstanceView(
        id=one.id,
        name=one.name,
        registry_url=one.registry_url,
        namespace=one.namespace,
        created_at=one.created_at,
        status=status,
        status_reason=one.status_reason,
        status_at=one.status_at,
        jwt=_jwt_state(one),
        has_agent_token=one.agent_token_encrypted is not None,
        agents=tuple(discovered(one.registry_url, agent, one.id, health) for agent in one.agents),
        unusable=tuple(UnusableEntry.model_validate(entry) for entry in one.unusable),
        last_fetched_at=one.last_fetched_at,
        last_fetch_error=one.last_fetch_error,
        workspace_ids=tuple(workspace_ids),
        pushed_workspaces=pushed,
        pushed_at=one.pushed_at,
        believed=Believed.model_validate(one.believed) if one.believed else None,
        drift=drift(status, one.believed, workspace_ids),
    )


def discovered(base: str, stored: Mapping[str, Any], instance_id: str, health: HealthOf) -> DiscoveredAgent:
    """An agent as it is shown: its icon is a path of this service."""
    agent = DiscoveredAgent.model_validate(stored)
    known = health(instance_id, agent.server_id)
    return agent.model_copy(update={"icon": icon_path(base, agent.icon), "health": known})


def _jwt_state(one: PallasInstance) -> JwtState:
    if one.team_jwt_encrypted is None:
        return "none"
    return "ready" if one.jwt_revealed_at is None else "revealed"


def drift(status: str | None, believed: Mapping[str, Any] | None, workspace_ids: Sequence[str]) -> str | None:
    """What Mnemosyne believes differently, in a sentence; None if nothing is known to differ."""
    if status != "provisioned" or not believed:
        return None
    if believed.get("active") is None:
        return "Mnemosyne does not know this team."
    if believed["active"] is False:
        return "Mnemosyne has this team as deleted."
    theirs = set[str](believed.get("workspace_ids") or ())
    parts = [
        *_named("Mnemosyne has not been told yet of", set(workspace_ids) - theirs),
        *_named("Mnemosyne still has", theirs - set(workspace_ids)),
    ]
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
