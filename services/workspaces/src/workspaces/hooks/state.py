"""An instance as its hooks see it, and what they write into its row.

Every write is made only while the lease is held: what another runner has done since is newer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Superseded
from pallas_contracts.message import utc_now
from pallas_postgres.engine import reading, writing
from workspaces.hooks.due import Due
from workspaces.live.hub import ALL, Hub
from workspaces.mnemosyne.reading import Team
from workspaces.model import TeamStatus
from workspaces.tables import WORKSPACE_IDS, PallasInstance


@dataclass(frozen=True, slots=True)
class State:
    """An instance. `workspace_ids` are those that it is attached to now, in order."""

    id: str
    name: str
    status: TeamStatus | None
    sealed: str | None
    pushed: tuple[str, ...] | None
    believed: Mapping[str, Any] | None
    workspace_ids: tuple[str, ...]


async def load(engine: AsyncEngine, instance_ids: Collection[str]) -> dict[str, State]:
    """These instances, by id. Deleted ones are missing."""
    found = select(PallasInstance, WORKSPACE_IDS).where(PallasInstance.id.in_(instance_ids))
    async with reading(engine) as session:
        return {one.id: _state(one, ids) for one, ids in await session.execute(found)}


def _state(one: PallasInstance, workspace_ids: Sequence[str]) -> State:
    status: Any = one.pallas_team_mnemosyne_status
    pushed = tuple(one.pushed_workspaces) if one.pushed_workspaces is not None else None
    return State(one.id, one.name, status, one.team_jwt_encrypted, pushed, one.believed, tuple(workspace_ids))


def believed_of(team: Team | None, *, jwt_is_current: bool | None = None) -> dict[str, Any]:
    """What Mnemosyne has answered about a team, as it is stored."""
    at = utc_now().isoformat()
    if team is None:
        return {"active": None, "workspace_ids": [], "at": at}
    return {
        "active": team.active,
        "name": team.name,
        "workspace_ids": sorted(team.workspace_ids),
        "jwt_is_current": jwt_is_current,
        "at": at,
    }


def status_values(status: TeamStatus, reason: str | None = None) -> dict[str, Any]:
    """The columns of a status."""
    return {"pallas_team_mnemosyne_status": status, "status_reason": reason, "status_at": func.clock_timestamp()}


def jwt_values(sealed: str) -> dict[str, Any]:
    """The columns of a new JWT, which nobody has seen yet."""
    return {
        "team_jwt_encrypted": sealed,
        "jwt_made_at": func.clock_timestamp(),
        "jwt_revealed_at": None,
        **status_values("provisioned"),
    }


async def write(engine: AsyncEngine, due: Due, values: Mapping[str, Any]) -> None:
    """Write into the row of an instance, in a transaction of its own.

    Raises:
        Superseded: the lease was lost, or the instance deleted.
    """
    async with writing(engine) as session:
        await write_in(session, due, values)


async def write_in(session: AsyncSession, due: Due, values: Mapping[str, Any]) -> None:
    """Write into the row of an instance, with the transaction of the session. Browsers hear of it.

    Raises:
        Superseded: the lease was lost, or the instance deleted.
    """
    if values:
        mine = PallasInstance.id == due.instance_id, due.is_leased
        written = await session.scalar(
            update(PallasInstance).where(*mine).values(**values).returning(PallasInstance.id)
        )
        if written is None:
            raise Superseded("somebody else tells Mnemosyne about this instance now, or it was deleted")
        await Hub.tell_in(session, ALL, "instance", {"id": due.instance_id})
