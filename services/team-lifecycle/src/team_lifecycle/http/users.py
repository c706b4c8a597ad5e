"""Routes of users, for admins, who may act for a user with `X-Pallas-User`."""

from functools import partial

from fastapi import APIRouter, Response

from pallas_postgres.engine import reading
from team_lifecycle.handlers import users
from team_lifecycle.handlers.answers import Page, UserDetail
from team_lifecycle.handlers.listing import list_users
from team_lifecycle.handlers.roles import check_admin, check_self, scoped_libraries
from team_lifecycle.http.errors import REFUSALS
from team_lifecycle.http.fields import After, Limit, NewUser, UserChange, UserName
from team_lifecycle.http.parts import Parts
from team_lifecycle.http.senders import Acting


def users_router(parts: Parts) -> APIRouter:
    """The routes of users."""
    router = APIRouter(tags=["users"], responses=REFUSALS)
    make = parts.changes.make

    @router.get("/users")
    async def list_all_users(who: Acting, after: After = "", limit: Limit = 100) -> Page[UserDetail]:
        """List users by name."""
        check_admin(who)
        async with reading(parts.engine) as session:
            return await list_users(session, after, limit)

    @router.post("/users", status_code=201, responses={200: {"description": "It existed already"}})
    async def create_user(body: NewUser, who: Acting, response: Response) -> UserDetail:
        """Create a user."""
        check_admin(who)
        user, new = await make(who, partial(users.create_user, name=body.name))
        response.status_code = 201 if new else 200
        return user

    @router.patch("/users/{user}")
    async def change_user(user: UserName, body: UserChange, who: Acting) -> UserDetail:
        """Activate or deactivate a user. The tokens of an inactive user are refused."""
        check_admin(who)
        return await make(who, partial(users.set_user_active, name=user, active=body.active))

    @router.get("/users/{user}/scopes")
    async def list_scopes(user: UserName, who: Acting) -> list[str]:
        """List the libraries that tokens of this user may have: those that the user owns or manages."""
        async with reading(parts.engine) as session:
            await check_self(session, who, user)
            await users.find_user(session, user)
            return await scoped_libraries(session, user)

    return router
