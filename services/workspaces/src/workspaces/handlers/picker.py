"""The agents that can be picked in a workspace (auth contract, section 10.2)."""

from collections import Counter

from sqlalchemy import select

from pallas_postgres.engine import reading
from workspaces.answers import AgentView, Capabilities, EmptyPicker, Picker
from workspaces.handlers.parts import Control
from workspaces.model import NO_TEAMS, no_workspace
from workspaces.registries.urls import icon_path, told_apart
from workspaces.tables import AgentConnection, Assignment, PallasInstance, Workspace

NO_AGENTS = "The attached teams have no agents."


async def pick(control: Control, workspace_id: str) -> Picker:
    """The agents of the teams that are attached to a workspace, by label.

    Raises:
        NotFound: there is no such workspace.
    """
    found = (
        select(AgentConnection, PallasInstance.name, PallasInstance.registry_url)
        .join(PallasInstance, PallasInstance.id == AgentConnection.pallas_instance_id)
        .where(AgentConnection.workspace_id == workspace_id)
    )
    async with reading(control.engine) as session:
        if await session.get(Workspace, workspace_id) is None:
            raise no_workspace(workspace_id)
        rows = [(one, name, base) for one, name, base in await session.execute(found)]
        attached = select(Assignment.workspace_id).where(Assignment.workspace_id == workspace_id).limit(1)
        any_team = await session.scalar(attached) is not None
    if not rows:
        link = f"/workspaces/{workspace_id}/settings#attached-teams"
        return Picker(agents=(), empty=EmptyPicker(text=NO_AGENTS if any_team else NO_TEAMS, link=link))
    teams = told_apart({(one.pallas_instance_id, name, base) for one, name, base in rows})
    agents = [_view(control, one, teams[one.pallas_instance_id], base) for one, _, base in rows]
    same = Counter(one.label for one in agents)
    agents = [
        one.model_copy(update={"label": f"{one.label} ({one.server_id})"}) if same[one.label] > 1 else one
        for one in agents
    ]
    return Picker(agents=tuple(sorted(agents, key=lambda one: (one.label.casefold(), one.instance_id, one.server_id))))


def _view(control: Control, one: AgentConnection, team: str, registry_url: str) -> AgentView:
    return AgentView(
        instance_id=one.pallas_instance_id,
        server_id=one.server_id,
        label=label(team, one.title),
        team=team,
        title=one.title,
        description=one.description,
        icon=icon_path(registry_url, one.icon),
        health=control.health(one.pallas_instance_id, one.server_id),
        capabilities=Capabilities.model_validate(one, from_attributes=True),
    )


def label(team: str, title: str) -> str:
    """How an agent is named in the picker."""
    return f"{team} › {title}"
