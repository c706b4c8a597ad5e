"""Workspaces. A deleted one is gone, with its conversations and attachments. An id that none has is `NotFound`."""

import secrets

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Conflict
from pallas_postgres.engine import reading
from workspaces.answers import WorkspaceView
from workspaces.changes.make import Decision, Event, Wake
from workspaces.handlers.parts import Control
from workspaces.model import Who, no_workspace
from workspaces.tables import INSTANCE_IDS, Assignment, Conversation, Workspace


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
