"""Lists, in pages, sorted by key."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from team_lifecycle.handlers.answers import (
    Answer,
    ChangeDetail,
    KeyDetail,
    LibraryDetail,
    MembershipDetail,
    Page,
    TeamDetail,
    TokenDetail,
    UserDetail,
)
from team_lifecycle.handlers.tokens import detail_of
from team_lifecycle.tables import (
    Change,
    Library,
    Membership,
    OpaqueToken,
    SigningKey,
    Team,
    TeamWorkspace,
    TokenLibrary,
    User,
)


def page_of[A: Answer](found: Sequence[A], limit: int, name: Callable[[A], str]) -> Page[A]:
    """A page of at most `limit` items. `found` has one more if there is a next page."""
    shown = list(found[:limit])
    return Page[Any](items=shown, next=name(shown[-1]) if len(found) > limit else None)


async def list_users(session: AsyncSession, after: str, limit: int) -> Page[UserDetail]:
    """Users by name."""
    rows = await session.scalars(select(User).where(User.name > after).order_by(User.name).limit(limit + 1))
    return page_of([UserDetail.model_validate(row) for row in rows], limit, lambda user: user.name)


async def list_libraries(
    session: AsyncSession, after: str, limit: int, workspace_id: str | None
) -> Page[LibraryDetail]:
    """Libraries by uid."""
    wanted = select(Library).where(Library.uid > after).order_by(Library.uid).limit(limit + 1)
    if workspace_id is not None:
        wanted = wanted.where(Library.workspace_id == workspace_id)
    rows = await session.scalars(wanted)
    return page_of([LibraryDetail.model_validate(row) for row in rows], limit, lambda library: library.uid)


async def list_memberships(
    session: AsyncSession, after: str, limit: int, library: str | None, user: str | None
) -> Page[MembershipDetail]:
    """Memberships by library, user and role; `after` is the three with slashes between them."""
    order = Membership.library_uid, Membership.user_name, Membership.role
    wanted = select(Membership).order_by(*order).limit(limit + 1)
    if after:
        parts = after.split("/", 2)
        wanted = wanted.where(tuple_(*order) > tuple_(*[*parts, "", ""][:3]))
    if library is not None:
        wanted = wanted.where(Membership.library_uid == library)
    if user is not None:
        wanted = wanted.where(Membership.user_name == user)
    found = [MembershipDetail.model_validate(row) for row in await session.scalars(wanted)]
    return page_of(found, limit, lambda held: f"{held.library_uid}/{held.user_name}/{held.role}")


async def list_tokens(session: AsyncSession, after: str, limit: int, user: str | None) -> Page[TokenDetail]:
    """Tokens by id."""
    wanted = select(OpaqueToken).order_by(OpaqueToken.id).limit(limit + 1)
    if after:
        wanted = wanted.where(OpaqueToken.id > after)
    if user is not None:
        wanted = wanted.where(OpaqueToken.user_name == user)
    tokens = (await session.scalars(wanted)).all()
    allowed: dict[str, list[str]] = {token.id: [] for token in tokens}
    rows = select(TokenLibrary).where(TokenLibrary.token_id.in_(allowed))
    for row in await session.scalars(rows):
        allowed[row.token_id].append(row.library_uid)
    found = [detail_of(token, sorted(allowed[token.id])) for token in tokens]
    return page_of(found, limit, lambda token: token.id)


async def list_teams(session: AsyncSession, after: str, limit: int) -> Page[TeamDetail]:
    """Teams by id."""
    wanted = select(Team).order_by(Team.id).limit(limit + 1)
    if after:
        wanted = wanted.where(Team.id > after)
    teams = (await session.scalars(wanted)).all()
    attached: dict[str, list[str]] = {team.id: [] for team in teams}
    rows = select(TeamWorkspace).where(TeamWorkspace.team_id.in_(attached)).order_by(TeamWorkspace.workspace_id)
    for row in await session.scalars(rows):
        attached[row.team_id].append(row.workspace_id)
    found = [
        TeamDetail(
            id=team.id,
            name=team.name,
            active=team.active,
            active_jti=team.active_jti,
            workspace_ids=attached[team.id],
        )
        for team in teams
    ]
    return page_of(found, limit, lambda team: team.id)


async def list_keys(session: AsyncSession) -> Page[KeyDetail]:
    """All signing keys, the oldest first. There are few, so there is one page."""
    rows = await session.scalars(select(SigningKey).order_by(SigningKey.created_at, SigningKey.kid))
    return Page[KeyDetail](items=[KeyDetail.model_validate(row) for row in rows])


async def list_changes(session: AsyncSession, after: int, limit: int) -> Page[ChangeDetail]:
    """Changes after that number: the audit log."""
    rows = await session.scalars(select(Change).where(Change.number > after).order_by(Change.number).limit(limit + 1))
    found = [
        ChangeDetail(
            number=row.number,
            kind=row.kind,
            action=row.action,
            id=row.subject,
            actor=row.actor,
            correlation=row.correlation,
            data=row.data,
            at=row.at,
        )
        for row in rows
    ]
    return page_of(found, limit, lambda change: str(change.number))
