"""Routes of roles, for admins, who may act for a user with `X-Pallas-User`."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from pallas_postgres.engine import reading
from team_lifecycle.handlers import memberships
from team_lifecycle.handlers.answers import MembershipDetail, Page
from team_lifecycle.handlers.listing import list_memberships
from team_lifecycle.handlers.roles import check_admin
from team_lifecycle.http.errors import REFUSALS
from team_lifecycle.http.fields import After, LibraryUid, Limit, PlainId, UserName
from team_lifecycle.http.parts import Parts
from team_lifecycle.http.senders import Acting
from team_lifecycle.model import Role


def memberships_router(parts: Parts) -> APIRouter:
    """The routes of roles."""
    router = APIRouter(tags=["memberships"], responses=REFUSALS)
    make = parts.changes.make

    @router.get("/memberships")
    async def list_all_memberships(
        who: Acting,
        after: After = "",
        limit: Limit = 100,
        library: Annotated[PlainId | None, Query()] = None,
        user: Annotated[PlainId | None, Query()] = None,
    ) -> Page[MembershipDetail]:
        """List roles, all or those of a library or a user."""
        check_admin(who)
        async with reading(parts.engine) as session:
            return await list_memberships(session, after, limit, library, user)

    @router.put(
        "/memberships/{library}/{user}/{role}",
        status_code=201,
        responses={200: {"description": "The user had the role already"}},
    )
    async def grant_role(
        library: LibraryUid, user: UserName, role: Role, who: Acting, response: Response
    ) -> MembershipDetail:
        """Grant a user a role on a library."""
        held, new = await make(who, partial(memberships.grant_role, who=who, library_uid=library, user=user, role=role))
        response.status_code = 201 if new else 200
        return held

    @router.delete("/memberships/{library}/{user}/{role}", status_code=204)
    async def revoke_role(library: LibraryUid, user: UserName, role: Role, who: Acting) -> None:
        """Revoke a role of a user, and remove the library from the tokens that needed the role."""
        await make(who, partial(memberships.revoke_role, who=who, library_uid=library, user=user, role=role))

    return router
