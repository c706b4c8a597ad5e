"""Users, and what their roles permit."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_contracts.errors import Denied, NotFound
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.answers import UserDetail
from team_lifecycle.model import GRANTS, SCOPES, Decision, Event, Role, Who, token_key
from team_lifecycle.tables import Membership, OpaqueToken, User


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


def check_admin(who: Who) -> None:
    """Refuse requests that act for a user.

    Raises:
        Denied: the request acts for a user.
    """
    if who.user is not None:
        raise Denied("only admins may do this, not users", code="admins_only")


def check_may_choose_workspace(who: Who) -> None:
    """Refuse users to choose a workspace: all its teams read the library.

    Raises:
        Denied: the request acts for a user.
    """
    if who.user is not None:
        raise Denied("only admins may put a library under a workspace or move it, not its owners", code="admins_only")


async def check_owner(session: AsyncSession, who: Who, library_uid: str) -> None:
    """Check that the acting user owns the library.

    Raises:
        Denied: the user does not.
    """
    if who.user is not None and "owner" not in await roles_of(session, who.user, library_uid):
        raise Denied(f"user {who.user!r} does not own library {library_uid!r}", code="not_owner")


async def check_grants(session: AsyncSession, who: Who, library_uid: str, role: Role) -> None:
    """Check that the acting user may grant and revoke the role on the library.

    Raises:
        Denied: the user may not.
    """
    if who.user is None:
        return
    held = await roles_of(session, who.user, library_uid)
    if not any(role in GRANTS[mine] for mine in held):
        as_what = f"as {' and '.join(sorted(held))}" if held else "without a role there"
        raise Denied(
            f"user {who.user!r} may not grant or revoke {role!r} on library {library_uid!r} {as_what}",
            code="may_not_grant",
        )


async def check_self(session: AsyncSession, who: Who, name: str) -> None:
    """Check that the acting user is the user `name`.

    Raises:
        Denied: it is another user, or is not active.
    """
    if who.user is None:
        return
    await _check_active(session, who.user)
    if who.user != name:
        raise Denied(f"user {who.user!r} may not do this for user {name!r}", code="not_yours")


async def roles_of(session: AsyncSession, name: str, library_uid: str) -> frozenset[Role]:
    """The roles of an active user on a library.

    Raises:
        Denied: the user does not exist or is not active.
    """
    await _check_active(session, name)
    held = select(Membership.role).where(Membership.user_name == name, Membership.library_uid == library_uid)
    found = set(await session.scalars(held))
    return frozenset(role for role in GRANTS if role in found)


async def scoped_libraries(session: AsyncSession, name: str) -> list[str]:
    """The libraries that a user may put into tokens, sorted."""
    held = Membership.user_name == name, Membership.role.in_(SCOPES)
    return sorted(set(await session.scalars(select(Membership.library_uid).where(*held))))


async def check_scopes(session: AsyncSession, name: str, libraries: Collection[str]) -> None:
    """Check that the user may put these libraries into a token.

    Raises:
        Denied: the user neither owns nor manages the named ones, which may not exist.
    """
    others = sorted(set(libraries) - set(await scoped_libraries(session, name)))
    if others:
        shown = ", ".join(map(repr, others[:5])) + (" ..." if len(others) > 5 else "")
        raise Denied(f"user {name!r} neither owns nor manages {shown}", code="not_scoped", libraries=others)


async def _check_active(session: AsyncSession, name: str) -> None:
    if not await session.scalar(select(User.active).where(User.name == name)):
        raise Denied(f"user {name!r} does not exist or is not active", code="user_disabled")
