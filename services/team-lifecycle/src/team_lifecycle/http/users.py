"""Routes of users and their tokens, for admins, who may act for a user with `X-Pallas-User`."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from pallas_postgres.engine import reading
from team_lifecycle.handlers import tokens, users
from team_lifecycle.handlers.answers import CreatedToken, Page, TokenDetail, UserDetail
from team_lifecycle.handlers.listing import list_tokens, list_users
from team_lifecycle.handlers.users import check_admin, check_self, scoped_libraries
from team_lifecycle.http.fields import (
    After,
    AllowedLibraries,
    Limit,
    NewToken,
    NewUser,
    PlainId,
    TokenId,
    UserChange,
    UserName,
    optional_uuid,
)
from team_lifecycle.http.senders import REFUSALS, Acting, Parts


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


def tokens_router(parts: Parts) -> APIRouter:
    """The routes of opaque tokens."""
    router = APIRouter(tags=["tokens"], responses=REFUSALS)
    make = parts.changes.make

    @router.get("/tokens")
    async def list_all_tokens(
        who: Acting, after: After = "", limit: Limit = 100, user: Annotated[PlainId | None, Query()] = None
    ) -> Page[TokenDetail]:
        """List tokens by id, all or those of a user."""
        if user is None:
            check_admin(who)
        async with reading(parts.engine) as session:
            if user is not None:
                await check_self(session, who, user)
            return await list_tokens(session, optional_uuid(after), limit, user)

    @router.post("/tokens", status_code=201)
    async def create_token(body: NewToken, who: Acting) -> CreatedToken:
        """Create a token. Only this answer has its text."""
        decide = partial(
            tokens.create_token,
            who=who,
            user=body.user,
            name=body.name,
            libraries=body.allowed_libraries,
            expires_at=body.expires_at,
        )
        return await make(who, decide)

    @router.get("/tokens/{token_id}")
    async def show_token(token_id: TokenId, who: Acting) -> TokenDetail:
        """Show a token, without its text."""
        async with reading(parts.engine) as session:
            return await tokens.show_token(session, who, token_id)

    @router.put("/tokens/{token_id}/libraries")
    async def replace_libraries(token_id: TokenId, body: AllowedLibraries, who: Acting) -> TokenDetail:
        """Replace the libraries that a token may read."""
        return await make(
            who, partial(tokens.replace_libraries, who=who, token_id=token_id, libraries=body.allowed_libraries)
        )

    @router.delete("/tokens/{token_id}", status_code=204)
    async def revoke_token(token_id: TokenId, who: Acting) -> None:
        """Revoke a token. This cannot be undone."""
        await make(who, partial(tokens.revoke_token, who=who, token_id=token_id))

    return router
