"""Routes of the list of teams and of the audit log, for admins."""

from typing import Annotated

from fastapi import APIRouter, Query

from pallas_postgres.engine import reading
from team_lifecycle.handlers.answers import ChangeDetail, Page, TeamDetail
from team_lifecycle.handlers.listing import list_changes, list_teams
from team_lifecycle.handlers.roles import check_admin
from team_lifecycle.http.errors import REFUSALS
from team_lifecycle.http.fields import After, Limit, optional_uuid
from team_lifecycle.http.parts import Parts
from team_lifecycle.http.senders import Acting


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
