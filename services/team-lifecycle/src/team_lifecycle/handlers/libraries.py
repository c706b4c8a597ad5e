"""Libraries. A move touches the look-ups of the teams of both workspaces."""

import secrets
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_contracts.errors import Conflict, NotFound
from pallas_contracts.message import utc_now
from team_lifecycle.handlers.answers import LibraryDetail
from team_lifecycle.handlers.users import check_may_choose_workspace, check_owner, check_self, find_user
from team_lifecycle.model import Decision, Event, Who, library_key, team_key, token_key
from team_lifecycle.tables import Library, Membership, OpaqueToken, TeamWorkspace, TokenLibrary


async def create_library(
    session: AsyncSession, who: Who, uid: str, name: str, workspace_id: str | None, owner: str | None
) -> Decision[tuple[LibraryDetail, bool]]:
    """Create a library. Returns it, and whether it is new. A user who creates one owns it.

    Raises:
        NotFound: there is no such owner.
        Denied: the acting user names another owner, or a workspace.
        Conflict: another library has that uid.
    """
    if workspace_id is not None:
        check_may_choose_workspace(who)
    owner = owner or who.user
    if owner is not None:
        await check_self(session, who, owner)
        await find_user(session, owner)
    if (library := await session.get(Library, uid)) is not None:
        if (library.name, library.workspace_id) != (name, workspace_id):
            raise Conflict(f"library {uid!r} exists already, with another name or workspace", code="library_exists")
        return Decision((LibraryDetail.model_validate(library), False), keys=await _readers(session, workspace_id))
    identity = secrets.token_hex(8)
    library = Library(uid=uid, name=name, workspace_id=workspace_id, identity=identity, created_at=utc_now())
    session.add(library)
    await session.flush()
    if owner is not None:
        session.add(Membership(library_uid=uid, user_name=owner, role="owner"))
    event = Event("library", "created", uid, _data(library) | {"owner": owner})
    return Decision((LibraryDetail.model_validate(library), True), event, await _readers(session, workspace_id))


async def rename_library(session: AsyncSession, who: Who, uid: str, name: str) -> Decision[LibraryDetail]:
    """Rename a library.

    Raises:
        NotFound: there is no such library.
        Denied: the user does not own it.
    """
    library = await find_library(session, uid)
    await check_owner(session, who, uid)
    if library.name == name:
        return Decision(LibraryDetail.model_validate(library))
    library.name = name
    return Decision(LibraryDetail.model_validate(library), Event("library", "renamed", uid, _data(library)))


async def move_library(session: AsyncSession, who: Who, uid: str, workspace_id: str | None) -> Decision[LibraryDetail]:
    """Move a library to another workspace, or to none. Other teams read it from now on.

    Raises:
        NotFound: there is no such library.
        Denied: the request acts for a user.
    """
    check_may_choose_workspace(who)
    library = await find_library(session, uid)
    keys = await _readers(session, library.workspace_id) | await _readers(session, workspace_id)
    if library.workspace_id == workspace_id:
        return Decision(LibraryDetail.model_validate(library), keys=keys)
    before, library.workspace_id = library.workspace_id, workspace_id
    event = Event("library", "moved", uid, _data(library) | {"before": before})
    return Decision(LibraryDetail.model_validate(library), event, keys)


async def delete_library(session: AsyncSession, who: Who, uid: str) -> Decision[None]:
    """Delete a library with all roles on it, and remove it from all tokens.

    Raises:
        NotFound: there is no such library.
        Denied: the user does not own it.
    """
    library = await find_library(session, uid)
    await check_owner(session, who, uid)
    allowed = select(OpaqueToken.digest).join(TokenLibrary, TokenLibrary.token_id == OpaqueToken.id)
    tokens = await session.scalars(allowed.where(TokenLibrary.library_uid == uid))
    keys = frozenset({library_key(uid), *map(token_key, tokens)}) | await _readers(session, library.workspace_id)
    data = _data(library)
    await session.delete(library)
    return Decision(None, Event("library", "deleted", uid, data), keys)


async def find_library(session: AsyncSession, uid: str) -> Library:
    """The library.

    Raises:
        NotFound: there is no such library.
    """
    if (library := await session.get(Library, uid)) is None:
        raise NotFound(f"there is no library {uid!r}", code="no_library")
    return library


async def _readers(session: AsyncSession, workspace_id: str | None) -> frozenset[LookupKey]:
    """The look-ups of the teams that are attached to a workspace."""
    attached = select(TeamWorkspace.team_id).where(TeamWorkspace.workspace_id == workspace_id)
    return frozenset(map(team_key, await session.scalars(attached)))


def _data(library: Library) -> dict[str, Any]:
    return {"name": library.name, "workspace_id": library.workspace_id, "identity": library.identity}
