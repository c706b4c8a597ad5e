"""Routes of libraries and their members, for admins, who may act for a user with `X-Pallas-User`."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from pallas_postgres.engine import reading
from team_lifecycle.handlers import libraries, memberships
from team_lifecycle.handlers.answers import LibraryDetail, MembershipDetail, Page
from team_lifecycle.handlers.listing import list_libraries, list_memberships
from team_lifecycle.handlers.users import check_admin
from team_lifecycle.http.fields import (
    After,
    LibraryUid,
    Limit,
    NewLibrary,
    NewName,
    NewWorkspace,
    PlainId,
    UserName,
    WorkspaceId,
)
from team_lifecycle.http.senders import REFUSALS, Acting, Parts
from team_lifecycle.model import Role


def libraries_router(parts: Parts) -> APIRouter:
    """The routes of libraries."""
    router = APIRouter(tags=["libraries"], responses=REFUSALS)
    make = parts.changes.make

    @router.get("/libraries")
    async def list_all_libraries(
        who: Acting,
        after: After = "",
        limit: Limit = 100,
        workspace_id: Annotated[WorkspaceId | None, Query()] = None,
    ) -> Page[LibraryDetail]:
        """List libraries by uid, all or those of a workspace."""
        check_admin(who)
        async with reading(parts.engine) as session:
            return await list_libraries(session, after, limit, workspace_id)

    @router.post("/libraries", status_code=201, responses={200: {"description": "It existed already"}})
    async def create_library(body: NewLibrary, who: Acting, response: Response) -> LibraryDetail:
        """Create a library. With `workspace_id`, the request must not act for a user."""
        decide = partial(
            libraries.create_library,
            who=who,
            uid=body.uid,
            name=body.name,
            workspace_id=body.workspace_id,
            owner=body.owner,
        )
        library, new = await make(who, decide)
        response.status_code = 201 if new else 200
        return library

    @router.put("/libraries/{library}/name")
    async def rename_library(library: LibraryUid, body: NewName, who: Acting) -> LibraryDetail:
        """Rename a library."""
        return await make(who, partial(libraries.rename_library, who=who, uid=library, name=body.name))

    @router.put("/libraries/{library}/workspace")
    async def move_library(library: LibraryUid, body: NewWorkspace, who: Acting) -> LibraryDetail:
        """Move a library to another workspace, or to none. The request must not act for a user."""
        return await make(who, partial(libraries.move_library, who=who, uid=library, workspace_id=body.workspace_id))

    @router.delete("/libraries/{library}", status_code=204)
    async def delete_library(library: LibraryUid, who: Acting) -> None:
        """Delete a library, with all roles on it, and remove it from all tokens."""
        await make(who, partial(libraries.delete_library, who=who, uid=library))

    return router


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
