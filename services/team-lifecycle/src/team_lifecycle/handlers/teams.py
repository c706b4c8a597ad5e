"""Teams (contract, section 7)."""

from collections.abc import Collection, Sequence
from typing import Any
from uuid import uuid4

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Conflict, NotFound, PallasError
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.answers import CreatedTeam, RotatedTeam, TeamDetail, Workspaces
from team_lifecycle.handlers.keys import Seal, team_jwt
from team_lifecycle.model import Decision, Event, team_key
from team_lifecycle.tables import SigningKey, Team, TeamWorkspace


async def create_team(
    session: AsyncSession, team_id: str, name: str, *, seal: Seal
) -> Decision[CreatedTeam | TeamDetail]:
    """Create a team and its JWT. An existing team is left as it is, and its JWT is not shown again."""
    keys = frozenset({team_key(team_id)})
    if (team := await session.get(Team, team_id)) is not None:
        return Decision(await _detail(session, team), keys=keys)
    team = Team(id=team_id, name=name, active=True)
    session.add(team)
    created = CreatedTeam(id=team_id, name=name, jwt=await _sign(session, team, seal))
    return Decision(created, Event("team", "provisioned", team_id, _data(team, ())), keys)


async def delete_team(session: AsyncSession, team_id: str) -> Decision[None]:
    """Make a team inactive. This cannot be undone.

    Raises:
        NotFound: there is no such team.
    """
    team, keys = await _find(session, team_id), frozenset({team_key(team_id)})
    if not team.active:
        return Decision(None, keys=keys)
    team.active = False
    return Decision(None, Event("team", "deleted", team_id, _data(team, await _workspaces(session, team_id))), keys)


async def rotate_team(session: AsyncSession, team_id: str, *, seal: Seal) -> Decision[RotatedTeam]:
    """Replace the JWT of a team.

    Raises:
        NotFound: there is no such team.
        Conflict: the team was deleted.
    """
    team = await _find_active(session, team_id)
    rotated = RotatedTeam(jwt=await _sign(session, team, seal))
    data = _data(team, await _workspaces(session, team_id))
    return Decision(rotated, Event("team", "rotated", team_id, data), frozenset({team_key(team_id)}))


async def rename_team(session: AsyncSession, team_id: str, name: str) -> Decision[TeamDetail]:
    """Rename a team.

    Raises:
        NotFound: there is no such team.
        Conflict: the team was deleted.
    """
    team, keys = await _find_active(session, team_id), frozenset({team_key(team_id)})
    renamed, team.name = team.name != name, name
    shown = await _detail(session, team)
    event = Event("team", "renamed", team_id, _data(team, shown.workspace_ids))
    return Decision(shown, event if renamed else None, keys)


async def replace_workspaces(
    session: AsyncSession, team_id: str, workspace_ids: Collection[str]
) -> Decision[Workspaces]:
    """Replace the workspaces of a team. They need not have libraries.

    Raises:
        NotFound: there is no such team.
        Conflict: the team was deleted.
    """
    team, keys = await _find_active(session, team_id), frozenset({team_key(team_id)})
    before, after = set(await _workspaces(session, team_id)), set(workspace_ids)
    answer = Workspaces(workspace_ids=sorted(after))
    if before == after:
        return Decision(answer, keys=keys)
    gone = TeamWorkspace.team_id == team_id, TeamWorkspace.workspace_id.in_(before - after)
    await session.execute(delete(TeamWorkspace).where(*gone))
    session.add_all(TeamWorkspace(team_id=team_id, workspace_id=workspace) for workspace in sorted(after - before))
    return Decision(answer, Event("team", "workspaces_updated", team_id, _data(team, answer.workspace_ids)), keys)


async def show_team(session: AsyncSession, team_id: str) -> TeamDetail:
    """Show a team.

    Raises:
        NotFound: there is no such team.
    """
    return await _detail(session, await _find(session, team_id))


async def _find(session: AsyncSession, team_id: str) -> Team:
    if (team := await session.get(Team, team_id)) is None:
        raise NotFound(f"there is no team {team_id!r}", code="no_team")
    return team


async def _find_active(session: AsyncSession, team_id: str) -> Team:
    team = await _find(session, team_id)
    if not team.active:
        raise Conflict(f"team {team_id!r} was deleted", code="team_deleted")
    return team


async def _sign(session: AsyncSession, team: Team, seal: Seal) -> str:
    """Sign a JWT and make it the only valid one of the team."""
    key = await session.scalar(select(SigningKey).where(SigningKey.current, SigningKey.purpose == "team"))
    if key is None or key.sealed is None:
        raise PallasError("there is no current signing key", code="no_signing_key")
    team.active_jti = jti = str(uuid4())
    secret = seal.open(key.sealed)
    return team_jwt(team.id, jti, utc_now(), kid=key.kid, algorithm=key.algorithm, secret=secret)


async def _detail(session: AsyncSession, team: Team) -> TeamDetail:
    return TeamDetail(
        id=team.id,
        name=team.name,
        active=team.active,
        active_jti=team.active_jti,
        workspace_ids=list(await _workspaces(session, team.id)),
    )


async def _workspaces(session: AsyncSession, team_id: str) -> Sequence[str]:
    found = select(TeamWorkspace.workspace_id).where(TeamWorkspace.team_id == team_id)
    return sorted(await session.scalars(found))


def _data(team: Team, workspace_ids: Sequence[str]) -> dict[str, Any]:
    return {"name": team.name, "active": team.active, "workspace_ids": list(workspace_ids)}
