"""Libraries as the events of team-lifecycle tell of them, each event taken once."""

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from library_search.tables import ChangesPosition, Library
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import postgres_errors


class Libraries:
    """Keeps libraries, and how far the events about them are in the tables."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def begin(self, made: str, last: int) -> tuple[int, int]:
        """The place behind which events of a stream are still to be taken, and the number of the last that was.

        `made` says when the stream was made, `last` is its last place. A place in another stream, or behind its end,
        means nothing in it: then all of it is still to be taken.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            position = await _locked(session)
            if position.stream != made or position.place > last:
                position.stream, position.place = made, 0
            return position.place, position.number

    async def take(self, event: LifecycleChanged | None, made: str, place: int) -> bool:
        """Take the event at `place` of the stream `made` then, None when it cannot be read; return whether it was new.

        Whichever replica comes first takes it. A number that is not higher than the last one was sent twice.

        Raises:
            Unavailable: Postgres cannot be used right now, or another replica follows another stream.
        """
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            position = await _locked(session)
            if position.stream != made:
                raise Unavailable("the stream of changes is another one", code="replaced")
            if place <= position.place:
                return False
            position.place = place
            if event is None or event.number <= position.number:
                return False
            position.number = event.number
            await _apply(session, event)
            return True


async def _locked(session: AsyncSession) -> ChangesPosition:
    return (await session.scalars(select(ChangesPosition).with_for_update())).one()


async def _apply(session: AsyncSession, event: LifecycleChanged) -> None:
    if event.action in ("deleted", "created"):
        # A library that was deleted unnoticed leaves nothing to one that is made under its uid.
        await session.execute(delete(Library).where(Library.uid == event.id))
    if event.action == "deleted":
        return
    facts = {"name": event.data.get("name") or event.id, "workspace_id": event.data.get("workspace_id")}
    new = insert(Library).values(uid=event.id, identity=event.data.get("identity"), **facts)
    await session.execute(new.on_conflict_do_update(index_elements=[Library.uid], set_=facts))
