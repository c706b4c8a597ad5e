"""Routes of teams (contract, section 7): `/mcp_server/api/teams/` for Daedalus, `/admin/api/teams/` for admins."""

from functools import partial

from fastapi import APIRouter, Response

from pallas_postgres.engine import reading
from team_lifecycle.handlers import teams
from team_lifecycle.handlers.answers import CreatedTeam, RotatedTeam, TeamDetail, Workspaces
from team_lifecycle.http.errors import REFUSALS
from team_lifecycle.http.fields import NewName, NewTeam, NewWorkspaces, TeamId
from team_lifecycle.http.parts import Parts
from team_lifecycle.http.senders import Sender


def teams_router(parts: Parts) -> APIRouter:
    """The routes. All paths end with a slash."""
    router = APIRouter(tags=["teams"], responses=REFUSALS)
    make = parts.changes.make

    @router.post("/", status_code=201, responses={200: {"model": TeamDetail, "description": "It existed already"}})
    async def create_team(body: NewTeam, who: Sender, response: Response) -> CreatedTeam | TeamDetail:
        """Create a team. Only this answer has its JWT."""
        answer = await make(who, partial(teams.create_team, team_id=str(body.id), name=body.name, seal=parts.seal))
        if isinstance(answer, TeamDetail):
            response.status_code = 200
        return answer

    @router.get("/{team_id}/")
    async def show_team(team_id: TeamId) -> TeamDetail:
        """Show a team, without its JWT."""
        async with reading(parts.engine) as session:
            return await teams.show_team(session, team_id)

    @router.delete("/{team_id}/", status_code=204)
    async def delete_team(team_id: TeamId, who: Sender) -> None:
        """Make a team inactive. Its JWT is refused from now on."""
        await make(who, partial(teams.delete_team, team_id=team_id))

    @router.put("/{team_id}/workspaces/")
    async def replace_workspaces(team_id: TeamId, body: NewWorkspaces, who: Sender) -> Workspaces:
        """Replace the workspaces that a team is attached to."""
        return await make(who, partial(teams.replace_workspaces, team_id=team_id, workspace_ids=body.workspace_ids))

    @router.put("/{team_id}/name/")
    async def rename_team(team_id: TeamId, body: NewName, who: Sender) -> TeamDetail:
        """Rename a team: its name mirrors that of its instance at Daedalus."""
        return await make(who, partial(teams.rename_team, team_id=team_id, name=body.name))

    @router.post("/{team_id}/rotate/")
    async def rotate_team(team_id: TeamId, who: Sender) -> RotatedTeam:
        """Create a new JWT for a team. The old one is refused from now on."""
        return await make(who, partial(teams.rotate_team, team_id=team_id, seal=parts.seal))

    return router
