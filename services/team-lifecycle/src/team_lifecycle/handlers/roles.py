"""Who may do what with a library (contract, section 4.1). An admin who does not act for a user may do everything."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.errors import Denied
from team_lifecycle.model import GRANTS, SCOPES, Role, Who
from team_lifecycle.tables import Membership, User


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
