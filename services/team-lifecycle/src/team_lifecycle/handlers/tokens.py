"""Opaque tokens (contract, sections 4.1 and 9.6). Only their digests are stored."""

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Conflict, NotFound
from pallas_contracts.message import utc_now
from pallas_contracts.opaque import new_opaque_token, token_digest
from team_lifecycle.handlers.answers import CreatedToken, TokenDetail
from team_lifecycle.handlers.users import check_scopes, check_self, find_user
from team_lifecycle.model import Decision, Event, Who, token_key
from team_lifecycle.tables import OpaqueToken, TokenLibrary


async def create_token(
    session: AsyncSession, who: Who, user: str, name: str, libraries: Collection[str], expires_at: datetime | None
) -> Decision[CreatedToken]:
    """Create a token of a user. Only this answer has its text.

    Raises:
        NotFound: there is no such user.
        Denied: the user neither owns nor manages one of the libraries, or acts for another user.
    """
    await check_self(session, who, user)
    await find_user(session, user)
    await check_scopes(session, user, libraries)
    text = new_opaque_token()
    token = OpaqueToken(
        id=str(uuid4()),
        digest=token_digest(text),
        name=name,
        user_name=user,
        expires_at=expires_at,
        created_at=utc_now(),
    )
    session.add(token)
    await session.flush()
    session.add_all(TokenLibrary(token_id=token.id, library_uid=uid) for uid in sorted(set(libraries)))
    await session.flush()
    detail = await _detail(session, token)
    created = CreatedToken(**dict(detail), token=text)
    # Nobody can have looked up a new token, so there is nothing to invalidate.
    return Decision(created, Event("token", "created", token.id, _data(detail)))


async def replace_libraries(
    session: AsyncSession, who: Who, token_id: str, libraries: Collection[str]
) -> Decision[TokenDetail]:
    """Replace the libraries that a token may read.

    Raises:
        NotFound: there is no such token.
        Conflict: the token was revoked.
        Denied: its user neither owns nor manages one of the libraries, or the token is another user's.
    """
    token = await _find(session, who, token_id)
    if token.revoked_at is not None:
        raise Conflict(f"token {token_id!r} was revoked", code="token_revoked")
    await check_scopes(session, token.user_name, libraries)
    before, after = set(await _libraries(session, token_id)), set(libraries)
    rows = TokenLibrary.token_id == token_id, TokenLibrary.library_uid.in_(before - after)
    await session.execute(delete(TokenLibrary).where(*rows))
    session.add_all(TokenLibrary(token_id=token_id, library_uid=uid) for uid in sorted(after - before))
    await session.flush()
    detail = await _detail(session, token)
    event = Event("token", "libraries_updated", token_id, _data(detail)) if before != after else None
    return Decision(detail, event, frozenset({token_key(token.digest)}))


async def revoke_token(session: AsyncSession, who: Who, token_id: str) -> Decision[None]:
    """Revoke a token. This cannot be undone.

    Raises:
        NotFound: there is no such token.
        Denied: the token is another user's.
    """
    token = await _find(session, who, token_id)
    keys = frozenset({token_key(token.digest)})
    if token.revoked_at is not None:
        return Decision(None, keys=keys)
    token.revoked_at = utc_now()
    return Decision(None, Event("token", "revoked", token_id, _data(await _detail(session, token))), keys)


async def show_token(session: AsyncSession, who: Who, token_id: str) -> TokenDetail:
    """Show a token, without its text.

    Raises:
        NotFound: there is no such token.
        Denied: the token is another user's.
    """
    return await _detail(session, await _find(session, who, token_id))


def detail_of(token: OpaqueToken, libraries: list[str]) -> TokenDetail:
    """The details of a token and its libraries."""
    return TokenDetail(
        id=token.id,
        name=token.name,
        user_name=token.user_name,
        allowed_libraries=libraries,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        created_at=token.created_at,
    )


async def _detail(session: AsyncSession, token: OpaqueToken) -> TokenDetail:
    return detail_of(token, await _libraries(session, token.id))


async def _find(session: AsyncSession, who: Who, token_id: str) -> OpaqueToken:
    if (token := await session.get(OpaqueToken, token_id)) is None:
        raise NotFound(f"there is no token {token_id!r}", code="no_token")
    await check_self(session, who, token.user_name)
    return token


async def _libraries(session: AsyncSession, token_id: str) -> list[str]:
    return sorted(await session.scalars(select(TokenLibrary.library_uid).where(TokenLibrary.token_id == token_id)))


def _data(detail: TokenDetail) -> dict[str, Any]:
    return detail.model_dump(mode="json", exclude={"id", "created_at"})
