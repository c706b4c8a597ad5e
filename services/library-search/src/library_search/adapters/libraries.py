"""Libraries as the events of team-lifecycle tell of them, each event taken once."""

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from library_search.tables import ChangesPosition, Library
from pallas_contracts.auth import LifecycleChanged
from pallas_postgres.engine import postgres_errors, reading


class Libraries:
    """Keeps libraries, and how far the events about them are in the tables."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def place(self) -> int:
        """The place in the stream behind which events are still to be taken.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        async with reading(self._engine) as session:
            return (await session.get_one(ChangesPosition, 1)).place

    async def take(self, event: LifecycleChanged | None, place: int) -> bool:
        """Take the event at `place`, None when it cannot be read; return whether it was new.

        Whichever replica comes first takes it. A number that is not higher than the last one was sent twice.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            position = (await session.scalars(select(ChangesPosition).with_for_update())).one()
            if place <= position.place:
                return False
            position.place = place
            if event is None or event.number <= position.number:
                return False
            position.number = event.number
            await _apply(session, event)
            return True


async def _apply(session: AsyncSession, event: LifecycleChanged) -> None:
    if event.action == "deleted":
        await session.execute(delete(Library).where(Library.uid == event.id))
        return
    facts = {"name": event.data.get("name") or event.id, "workspace_id": event.data.get("workspace_id")}
    new = insert(Library).values(uid=event.id, **facts)
    await session.execute(new.on_conflict_do_update(index_elements=[Library.uid], set_=facts))
