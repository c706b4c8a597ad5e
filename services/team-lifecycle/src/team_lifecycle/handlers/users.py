"""Users."""

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_contracts.errors import NotFound
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.answers import UserDetail
from team_lifecycle.model import Decision, Event, token_key
from team_lifecycle.tables import OpaqueToken, User


async def create_user(session: AsyncSession, name: str) -> Decision[tuple[UserDetail, bool]]:
    """Create a user. Returns it, and whether it is new. An existing user is left as it is."""
    if (user := await session.get(User, name)) is not None:
        return Decision((UserDetail.model_validate(user), False))
    user = User(name=name, active=True, created_at=utc_now())
    session.add(user)
    return Decision((UserDetail.model_validate(user), True), Event("user", "created", name, {"active": True}))


async def set_user_active(session: AsyncSession, name: str, *, active: bool) -> Decision[UserDetail]:
    """Activate or deactivate a user. The tokens of an inactive user are refused.

    Raises:
        NotFound: there is no such user.
    """
    user = await find_user(session, name)
    keys = await tokens_of(session, name)
    if user.active == active:
        return Decision(UserDetail.model_validate(user), keys=keys)
    user.active = active
    event = Event("user", "activated" if active else "deactivated", name, {"active": active})
    return Decision(UserDetail.model_validate(user), event, keys)


async def find_user(session: AsyncSession, name: str) -> User:
    """The user.

    Raises:
        NotFound: there is no such user.
    """
    if (user := await session.get(User, name)) is None:
        raise NotFound(f"there is no user {name!r}", code="no_user")
    return user


async def tokens_of(session: AsyncSession, name: str) -> frozenset[LookupKey]:
    """The look-ups of all tokens of a user."""
    found = await session.scalars(select(OpaqueToken.digest).where(OpaqueToken.user_name == name))
    return frozenset(map(token_key, found))
