"""Reindexes all chunks when the search languages have changed.

It may take hours, and is one transaction, on a connection without timeouts.
"""

from collections.abc import Callable

from sqlalchemy import case, text, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from library_search.store.words import words_of
from library_search.tables import Chunk, Document, Indexed
from pallas_contracts.errors import Rejected
from pallas_postgres.engine import open_engine, postgres_errors


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
