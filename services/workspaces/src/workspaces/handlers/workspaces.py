"""Workspaces, the teams that are attached to them (auth contract, section 9.2; interface contract, section 4), and the
agents that can be picked there (auth contract, section 10.2).

A deleted workspace is gone, with its conversations and attachments. The registry of a team is fetched again when it is
attached. If it does not answer, the team is attached all the same, with the agents that were known last. An unknown
workspace, or an unknown instance in a path, is `NotFound`.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Mapping

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Conflict, Rejected
from pallas_postgres.engine import reading
from workspaces.answers import AgentView, Attached, AttachedInstance, Capabilities, EmptyPicker, Picker, WorkspaceView
from workspaces.changes.make import Decision, Event, Wake
from workspaces.handlers.control import Control
from workspaces.model import NO_TEAMS, Who, no_instance, no_workspace
from workspaces.registries.refresh import connect
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
        entry=one.entry,
        starters=tuple(one.starters),
    )


def label(team: str, title: str) -> str:
    """How an agent is named in the picker."""
    return f"{team} › {title}"


async def list_attached(control: Control, workspace_id: str) -> Attached:
    """The teams attached to a workspace."""
    async with reading(control.engine) as session:
        await _ids(session, workspace_id)
        return await _attached(session, workspace_id, {})


async def replace_attached(control: Control, who: Who, workspace_id: str, wanted: Collection[str]) -> Attached:
    """Attach these teams to a workspace, and no others.

    Raises:
        Rejected: there is no such instance (`field`).
    """
    async with reading(control.engine) as session:
        new = set(wanted) - await _ids(session, workspace_id)
        await _check_instances(session, wanted)
    warnings = await control.refresher.refresh(who, sorted(new))

    async def replace(session: AsyncSession) -> Decision[Attached]:
        before = await _ids(session, workspace_id)
        await _check_instances(session, wanted)
        return await _change(session, workspace_id, set(wanted) - before, before - set(wanted), warnings)

    return await control.changes.make(who, replace)


async def attach(control: Control, who: Who, workspace_id: str, instance_id: str) -> Attached:
    """Attach a team to a workspace, besides those that are."""
    async with reading(control.engine) as session:
        await _ids(session, workspace_id)
        await _check_instance(session, instance_id)
    warnings = await control.refresher.refresh(who, [instance_id])

    async def add(session: AsyncSession) -> Decision[Attached]:
        before = await _ids(session, workspace_id)
        await _check_instance(session, instance_id)
        return await _change(session, workspace_id, {instance_id} - before, set(), warnings)

    return await control.changes.make(who, add)


async def detach(control: Control, who: Who, workspace_id: str, instance_id: str) -> None:
    """Detach a team from a workspace, with all its agents. It may be detached already."""

    async def remove(session: AsyncSession) -> Decision[Attached]:
        before = await _ids(session, workspace_id)
        await _check_instance(session, instance_id)
        return await _change(session, workspace_id, set(), {instance_id} & before, {})

    await control.changes.make(who, remove)


async def _change(
    session: AsyncSession,
    workspace_id: str,
    added: Collection[str],
    removed: Collection[str],
    warnings: Mapping[str, str | None],
) -> Decision[Attached]:
    """Change the attachments. Connections of removed ones cascade."""
    if added:
        rows = [{"workspace_id": workspace_id, "pallas_instance_id": one} for one in sorted(added)]
        await session.execute(insert(Assignment).values(rows))
        known = select(PallasInstance.id, PallasInstance.agents).where(PallasInstance.id.in_(added))
        for instance_id, agents in (await session.execute(known)).all():
            await connect(session, instance_id, agents)
    if removed:
        gone = Assignment.workspace_id == workspace_id, Assignment.pallas_instance_id.in_(removed)
        await session.execute(delete(Assignment).where(*gone))
    return Decision(
        await _attached(session, workspace_id, warnings),
        (
            *(_event("attached", workspace_id, one) for one in sorted(added)),
            *(_event("detached", workspace_id, one) for one in sorted(removed)),
        ),
        (
            *(Wake(one) for one in sorted(added)),
            *(Wake(one, revokes=True) for one in sorted(removed)),
        ),
    )


def _event(action: str, workspace_id: str, instance_id: str) -> Event:
    data = {"workspace_id": workspace_id, "instance_id": instance_id}
    return Event("assignment", action, f"{workspace_id}/{instance_id}", data)


async def _attached(session: AsyncSession, workspace_id: str, warnings: Mapping[str, str | None]) -> Attached:
    found = (
        select(PallasInstance.id, PallasInstance.name, func.jsonb_array_length(PallasInstance.agents))
        .join(Assignment, Assignment.pallas_instance_id == PallasInstance.id)
        .where(Assignment.workspace_id == workspace_id)
        .order_by(func.lower(PallasInstance.name), PallasInstance.id)
    )
    return Attached(
        instances=tuple(
            AttachedInstance(instance_id=one, name=name, agents=agents, warning=warnings.get(one))
            for one, name, agents in await session.execute(found)
        )
    )


async def _ids(session: AsyncSession, workspace_id: str) -> set[str]:
    """The ids of the teams attached to a workspace."""
    if await session.get(Workspace, workspace_id) is None:
        raise no_workspace(workspace_id)
    found = select(Assignment.pallas_instance_id).where(Assignment.workspace_id == workspace_id)
    return set(await session.scalars(found))


async def _check_instance(session: AsyncSession, instance_id: str) -> None:
    if await session.get(PallasInstance, instance_id) is None:
        raise no_instance(instance_id)


async def _check_instances(session: AsyncSession, wanted: Collection[str]) -> None:
    known = set(await session.scalars(select(PallasInstance.id).where(PallasInstance.id.in_(wanted))))
    if missing := sorted(set(wanted) - known):
        raise Rejected(f"instance_ids: there is no instance {missing[0]!r}", code="no_instance", field="instance_ids")
