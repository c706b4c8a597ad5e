"""Routes of opaque tokens, signing keys and the audit log, for admins. Tokens are also for their users."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from pallas_postgres.engine import reading
from team_lifecycle.answers import AddedKey, ChangeDetail, CreatedToken, KeyDetail, Page, TeamDetail, TokenDetail
from team_lifecycle.entry.fields import (
    REFUSALS,
    Acting,
    After,
    AllowedLibraries,
    Kid,
    Limit,
    NewKey,
    NewToken,
    PlainId,
    TokenId,
    optional_uuid,
)
from team_lifecycle.entry.parts import Parts
from team_lifecycle.handlers import keys, tokens
from team_lifecycle.listing import list_changes, list_keys, list_teams, list_tokens
from team_lifecycle.roles import check_admin, check_self


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
