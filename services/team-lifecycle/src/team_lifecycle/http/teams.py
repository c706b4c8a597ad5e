"""Routes of teams (contract, section 7): `/mcp_server/api/teams/` for Daedalus, `/admin/api/teams/` for admins."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from pallas_postgres.engine import reading
from team_lifecycle.handlers import keys, teams
from team_lifecycle.handlers.answers import (
    AddedKey,
    ChangeDetail,
    CreatedTeam,
    KeyDetail,
    Page,
    RotatedTeam,
    TeamDetail,
    Workspaces,
)
from team_lifecycle.handlers.listing import list_changes, list_keys, list_teams
from team_lifecycle.handlers.users import check_admin
from team_lifecycle.http.fields import After, Kid, Limit, NewKey, NewName, NewTeam, NewWorkspaces, TeamId, optional_uuid
from team_lifecycle.http.senders import REFUSALS, Acting, Parts, Sender


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


def keys_router(parts: Parts) -> APIRouter:
    """The routes of signing keys."""
    router = APIRouter(tags=["keys"], responses=REFUSALS)
    make = parts.changes.make

    @router.get("/keys")
    async def list_all_keys(who: Acting) -> Page[KeyDetail]:
        """List all signing keys, the oldest first."""
        check_admin(who)
        async with reading(parts.engine) as session:
            return await list_keys(session)

    @router.post("/keys", status_code=201)
    async def add_key(body: NewKey, who: Acting) -> AddedKey:
        """Create a key. Only this answer has the secret of a key for per-turn tokens."""
        check_admin(who)
        algorithm = body.algorithm or (parts.algorithm if body.purpose == "team" else "HS256")
        decide = partial(keys.add_key, purpose=body.purpose, algorithm=algorithm, current=body.current, seal=parts.seal)
        return await make(who, decide)

    @router.post("/keys/reseal", status_code=204)
    async def reseal_keys(who: Acting) -> None:
        """Encrypt all secrets again, with the first Fernet key of the settings."""
        check_admin(who)
        await make(who, partial(keys.reseal_keys, seal=parts.seal))

    @router.post("/keys/{kid}/current")
    async def make_current(kid: Kid, who: Acting) -> KeyDetail:
        """Make this the key that signs team JWTs."""
        check_admin(who)
        return await make(who, partial(keys.make_current, kid=kid))

    @router.post("/keys/{kid}/retire")
    async def retire_key(kid: Kid, who: Acting) -> KeyDetail:
        """Retire a key. All JWTs signed with it become invalid. This cannot be undone."""
        check_admin(who)
        return await make(who, partial(keys.retire_key, kid=kid))

    return router


def lists_router(parts: Parts) -> APIRouter:
    """The routes of the list of teams and of the audit log."""
    router = APIRouter(responses=REFUSALS)

    @router.get("/teams/", tags=["teams"])
    async def list_all_teams(who: Acting, after: After = "", limit: Limit = 100) -> Page[TeamDetail]:
        """List teams by id."""
        check_admin(who)
        async with reading(parts.engine) as session:
            return await list_teams(session, optional_uuid(after), limit)

    @router.get("/changes", tags=["changes"])
    async def list_all_changes(
        who: Acting, after: Annotated[int, Query(ge=0, lt=2**63)] = 0, limit: Limit = 100
    ) -> Page[ChangeDetail]:
        """List changes by number: the audit log."""
        check_admin(who)
        async with reading(parts.engine) as session:
            return await list_changes(session, after, limit)

    return router
