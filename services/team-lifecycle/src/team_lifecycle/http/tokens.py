"""Routes of opaque tokens, for admins and for the users of the tokens."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from pallas_postgres.engine import reading
from team_lifecycle.handlers import tokens
from team_lifecycle.handlers.answers import CreatedToken, Page, TokenDetail
from team_lifecycle.handlers.listing import list_tokens
from team_lifecycle.handlers.roles import check_admin, check_self
from team_lifecycle.http.errors import REFUSALS
from team_lifecycle.http.fields import After, AllowedLibraries, Limit, NewToken, PlainId, TokenId, optional_uuid
from team_lifecycle.http.parts import Parts
from team_lifecycle.http.senders import Acting


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
