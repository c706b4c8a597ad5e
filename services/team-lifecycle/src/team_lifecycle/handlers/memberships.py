"""Roles on libraries. Revoking one may remove the library from tokens."""

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_contracts.errors import Conflict, NotFound
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.answers import MembershipDetail
from team_lifecycle.handlers.libraries import find_library
from team_lifecycle.handlers.users import check_grants, check_self, find_user, scoped_libraries
from team_lifecycle.model import Decision, Event, Role, Who, token_key
from team_lifecycle.tables import Membership, OpaqueToken, TokenLibrary


async def grant_role(
    session: AsyncSession, who: Who, library_uid: str, user: str, role: Role
) -> Decision[tuple[MembershipDetail, bool]]:
    """Grant a role. Returns it, and whether it is new.

    Raises:
        NotFound: there is no such library or user.
        Denied: the acting user may not grant it.
    """
    await find_library(session, library_uid)
    await check_grants(session, who, library_uid, role)
    await find_user(session, user)
    if (held := await session.get(Membership, (library_uid, user, role))) is not None:
        return Decision((MembershipDetail.model_validate(held), False))
    held = Membership(library_uid=library_uid, user_name=user, role=role, created_at=utc_now())
    session.add(held)
    return Decision((MembershipDetail.model_validate(held), True), _event("granted", held, 0))


async def revoke_role(session: AsyncSession, who: Who, library_uid: str, user: str, role: Role) -> Decision[None]:
    """Revoke a role of a user, and remove the library from the tokens of the user that needed the role.

    Raises:
        NotFound: there is no such library, or the user does not hold the role.
        Denied: the acting user may not revoke it. Users may always give up their own roles.
        Conflict: the library would have no owner.
    """
    await find_library(session, library_uid)
    if who.user == user:
        await check_self(session, who, user)
    else:
        await check_grants(session, who, library_uid, role)
    if (held := await session.get(Membership, (library_uid, user, role))) is None:
        raise NotFound(f"user {user!r} is not {role} of library {library_uid!r}", code="no_membership")
    if role == "owner" and await _owners(session, library_uid) == 1:
        raise Conflict(f"user {user!r} is the last owner of library {library_uid!r}", code="last_owner")
    await session.delete(held)
    await session.flush()
    keys = await _withdraw(session, library_uid, user)
    return Decision(None, _event("revoked", held, len(keys)), keys)


async def _owners(session: AsyncSession, library_uid: str) -> int:
    owns = Membership.library_uid == library_uid, Membership.role == "owner"
    return await session.scalar(select(func.count()).select_from(Membership).where(*owns)) or 0


async def _withdraw(session: AsyncSession, library_uid: str, user: str) -> frozenset[LookupKey]:
    """Remove the library from the tokens of the user, unless another role allows it."""
    if library_uid in await scoped_libraries(session, user):
        return frozenset()
    found = select(OpaqueToken.id, OpaqueToken.digest).join(TokenLibrary, TokenLibrary.token_id == OpaqueToken.id)
    tokens = (
        await session.execute(found.where(OpaqueToken.user_name == user, TokenLibrary.library_uid == library_uid))
    ).all()
    rows = TokenLibrary.library_uid == library_uid, TokenLibrary.token_id.in_([token.id for token in tokens])
    await session.execute(delete(TokenLibrary).where(*rows))
    return frozenset(token_key(token.digest) for token in tokens)


def _event(action: str, held: Membership, tokens: int) -> Event:
    data = {"library_uid": held.library_uid, "user_name": held.user_name, "role": held.role, "tokens": tokens}
    return Event("membership", action, f"{held.library_uid}/{held.user_name}/{held.role}", data)
