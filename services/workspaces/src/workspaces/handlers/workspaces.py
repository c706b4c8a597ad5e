"""Workspaces, and the agents that can be picked in them (auth contract, section 10.2).

A deleted workspace is gone, with its conversations and attachments. An id that none has is `NotFound`.
"""

import secrets
from collections import Counter

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Conflict
from pallas_postgres.engine import reading
from workspaces.answers import AgentView, Capabilities, EmptyPicker, Picker, WorkspaceView
from workspaces.changes.make import Decision, Event, Wake
from workspaces.handlers.control import Control
from workspaces.model import NO_TEAMS, Who, no_workspace
from workspaces.registries.urls import icon_path, told_apart
from workspaces.tables import INSTANCE_IDS, AgentConnection, Assignment, Conversation, PallasInstance, Workspace

NO_AGENTS = "The attached teams have no agents."


async def list_workspaces(control: Control, *only: str) -> list[WorkspaceView]:
    """All workspaces by name, or only these."""
    conversations = select(func.count()).where(Conversation.workspace_id == Workspace.id).scalar_subquery()
    counted = INSTANCE_IDS.label("instance_ids"), conversations.label("conversations")
    found = select(*Workspace.__table__.c, *counted).order_by(func.lower(Workspace.name), Workspace.id)
    if only:
        found = found.where(Workspace.id.in_(only))
    async with reading(control.engine) as session:
        rows = await session.execute(found)
        return [WorkspaceView.model_validate(row, from_attributes=True) for row in rows]


async def get_workspace(control: Control, workspace_id: str) -> WorkspaceView:
    """One workspace."""
    found = await list_workspaces(control, workspace_id)
    if not found:
        raise no_workspace(workspace_id)
    return found[0]


async def create_workspace(control: Control, who: Who, name: str, workspace_id: str | None) -> WorkspaceView:
    """Create a workspace, without attached teams.

    Raises:
        Conflict: there is one with this id (`workspace_exists`).
    """
    new_id = workspace_id or f"ws_{secrets.token_hex(8)}"

    async def create(session: AsyncSession) -> Decision[None]:
        row = insert(Workspace).values(id=new_id, name=name).on_conflict_do_nothing().returning(Workspace.id)
        if await session.scalar(row) is None:
            raise Conflict(f"there is a workspace {new_id!r} already", code="workspace_exists", field="id")
        return Decision(None, (Event("workspace", "created", new_id, {"name": name}),))

    await control.changes.make(who, create)
    return await get_workspace(control, new_id)


async def rename_workspace(control: Control, who: Who, workspace_id: str, name: str) -> WorkspaceView:
    """Give a workspace another name."""

    async def rename(session: AsyncSession) -> Decision[None]:
        row = update(Workspace).where(Workspace.id == workspace_id).values(name=name).returning(Workspace.id)
        if await session.scalar(row) is None:
            raise no_workspace(workspace_id)
        return Decision(None, (Event("workspace", "renamed", workspace_id, {"name": name}),))

    await control.changes.make(who, rename)
    return await get_workspace(control, workspace_id)


async def delete_workspace(control: Control, who: Who, workspace_id: str) -> None:
    """Delete a workspace. The teams that were attached to it lose it in Mnemosyne afterwards."""

    async def remove(session: AsyncSession) -> Decision[None]:
        attached = select(Assignment.pallas_instance_id).where(Assignment.workspace_id == workspace_id)
        instances = sorted(await session.scalars(attached))
        row = delete(Workspace).where(Workspace.id == workspace_id).returning(Workspace.name)
        name = await session.scalar(row)
        if name is None:
            raise no_workspace(workspace_id)
        event = Event("workspace", "deleted", workspace_id, {"name": name, "instance_ids": instances})
        return Decision(None, (event,), tuple(Wake(one, revokes=True) for one in instances))

    await control.changes.make(who, remove)


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
