"""Applies the events of team-lifecycle about libraries to the tables, each once, and indexes a library again."""

from collections.abc import Callable

from sqlalchemy import case, delete, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from library_search.store.queries import words_of
from library_search.tables import ChangesPosition, Chunk, Document, Indexed, Library
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.errors import Rejected, Unavailable
from pallas_postgres.engine import open_engine, postgres_errors


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


async def reindex(engine: AsyncEngine, languages: tuple[str, ...], begins: Callable[[], None]) -> int:
    """Reindex all chunks if they were indexed in other languages. Returns how many chunks were.

    Calls `begins` before it reindexes.

    Raises:
        Rejected: Postgres has no such text search configuration.
        Unavailable: Postgres cannot be used right now.
    """
    url = engine.url.render_as_string(hide_password=False)
    unlimited = open_engine(url, pool=1, service="library-search", command_seconds=None)
    try:
        async with postgres_errors(), AsyncSession(unlimited) as session, session.begin():
            await session.execute(text("set local statement_timeout = 0"))
            await session.execute(text("set local lock_timeout = 0"))
            return await _index(session, languages, begins)
    finally:
        await unlimited.dispose()


async def _index(session: AsyncSession, languages: tuple[str, ...], begins: Callable[[], None]) -> int:
    known = set(await session.scalars(text("select cfgname::text from pg_ts_config")))
    if unknown := [language for language in languages if language not in known]:
        raise Rejected(f"PALLAS_SEARCH_LANGUAGES: Postgres has no text search configuration {unknown[0]!r}")
    wanted = ",".join(languages)
    before = (await session.get_one(Indexed, 1)).languages
    if before == wanted:
        return 0
    if before:
        begins()
    # Another replica may be reindexing, or have done so in the meantime.
    indexed = await session.get_one(Indexed, 1, with_for_update=True, populate_existing=True)
    if indexed.languages == wanted:
        return 0
    indexed.languages = wanted
    title = case((Chunk.position == 0, Document.title), else_="")
    words = words_of(languages, title, Chunk.heading, Chunk.text)
    anew = update(Chunk).where(Document.id == Chunk.document_id).values(words=words)
    made = await session.execute(anew.returning(Chunk.position).execution_options(synchronize_session=False))
    return len(made.all())
