"""Applies the events of team-lifecycle about libraries to the tables, each event once."""

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from library_search.tables import ChangesPosition, Library
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import postgres_errors


class Libraries:
    """Stores libraries, and the position in the stream of changes up to which events were applied."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def begin(self, made: str, last: int) -> tuple[int, int]:
        """The sequence number after which events are to be applied, and the number of the last change that was.

        `made` is when the stream was created, `last` its last sequence number. A stored position in another stream, or
        beyond the end of this one, is not valid: then the first is 0.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            position = await _locked(session)
            if position.stream != made or position.seq > last:
                position.stream, position.seq = made, 0
            return position.seq, position.number

    async def apply(self, event: LifecycleChanged | None, made: str, seq: int) -> bool:
        """Apply the event at sequence number `seq`, None if it cannot be decoded. Returns whether it was new.

        The first replica applies it. A change whose number is not higher than the last one was sent twice.

        Raises:
            Unavailable: Postgres cannot be used right now, or another replica follows another stream.
        """
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            position = await _locked(session)
            if position.stream != made:
                raise Unavailable("the stream of changes was replaced", code="replaced")
            if seq <= position.seq:
                return False
            position.seq = seq
            if event is None or event.number <= position.number:
                return False
            position.number = event.number
            await _apply(session, event)
            return True


async def _locked(session: AsyncSession) -> ChangesPosition:
    return (await session.scalars(select(ChangesPosition).with_for_update())).one()


async def _apply(session: AsyncSession, event: LifecycleChanged) -> None:
    if event.action in ("deleted", "created"):
        # If the deletion of an earlier library was missed, its documents must not pass to the new one.
        await session.execute(delete(Library).where(Library.uid == event.id))
    if event.action == "deleted":
        return
    facts = {"name": event.data.get("name") or event.id, "workspace_id": event.data.get("workspace_id")}
    new = insert(Library).values(uid=event.id, identity=event.data.get("identity"), **facts)
    await session.execute(new.on_conflict_do_update(index_elements=[Library.uid], set_=facts))
