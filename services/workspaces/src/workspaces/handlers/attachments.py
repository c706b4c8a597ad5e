"""Teams that are attached to workspaces (auth contract, section 9.2; interface contract, section 4).

The registry of a team is fetched again when it is attached. If it does not answer, the team is attached all the same,
with the agents that were known last. An unknown workspace, or an unknown instance in a path, is `NotFound`.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Rejected
from pallas_postgres.engine import reading
from workspaces.answers import Attached, AttachedInstance
from workspaces.changes.make import Decision, Event, Wake
from workspaces.handlers.control import Control
from workspaces.model import Who, no_instance, no_workspace
from workspaces.registries.refresh import connect
from workspaces.tables import Assignment, PallasInstance, Workspace


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
