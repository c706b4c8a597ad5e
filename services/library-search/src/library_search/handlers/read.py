"""Answers what callers ask: passages, documents, lists, and the health of the service."""

from collections.abc import Callable, Sequence

from library_search.handlers.answers import (
    ChunkAnswer,
    ChunkText,
    CollectionLine,
    CollectionList,
    DocumentAnswer,
    Found,
    Health,
    ItemLine,
    ItemList,
    LibraryLine,
    LibraryList,
    Passage,
)
from library_search.handlers.arguments import (
    LARGEST_OFFSET,
    GetChunk,
    GetDocument,
    ListCollections,
    ListItems,
    ListLibraries,
    Search,
    cursor_of,
    key_of,
)
from library_search.model import ChunkId, Readable, readable_among
from library_search.store.queries import Line, Queries, parse_query
from pallas_contracts.errors import NotFound
from pallas_contracts.message import utc_now


async def search(asked: Search, readable: Readable, queries: Queries) -> Found:
    """The best passages. A library that the caller may not read is left out, like an unknown one.

    Raises:
        Rejected: the query has no word, or too many.
        Unavailable: Postgres cannot be used right now.
    """
    query = parse_query(asked.query)
    within = readable if asked.libraries is None else readable_among(readable, asked.libraries)
    if not within:
        return Found(results=[])
    rows = await queries.search(within, query, asked.collection, limit=asked.limit + 1, offset=asked.offset)
    results = [
        Passage.model_validate(
            {**row, "chunk": str(ChunkId(row["document"], row["position"])), "score": round(row["score"], 6)}
        )
        for row in rows[: asked.limit]
    ]
    behind = asked.offset + asked.limit
    return Found(results=results, next_offset=behind if len(rows) > asked.limit and behind <= LARGEST_OFFSET else None)


async def get_document(asked: GetDocument, readable: Readable, queries: Queries) -> DocumentAnswer:
    """A document with a part of its text.

    Raises:
        NotFound: there is no such document for the caller.
        Unavailable: Postgres cannot be used right now.
    """
    row = await queries.document(readable, asked.document, offset=asked.offset, limit=asked.limit)
    if row is None:
        raise NotFound("document: not found", code="not_found", field="document")
    behind = asked.offset + len(row["text"])
    next_offset = behind if behind < row["characters"] else None
    return DocumentAnswer.model_validate({**row, "offset": asked.offset, "next_offset": next_offset})


async def get_chunk(asked: GetChunk, readable: Readable, queries: Queries) -> ChunkAnswer:
    """A chunk and its neighbours.

    Raises:
        NotFound: there is no such chunk for the caller.
        Unavailable: Postgres cannot be used right now.
    """
    rows = await queries.chunks(readable, asked.chunk, before=asked.before, after=asked.after)
    if not rows:
        raise NotFound("chunk: not found", code="not_found", field="chunk")
    chunks = [
        ChunkText.model_validate({**row, "chunk": str(ChunkId(row["document"], row["position"]))}) for row in rows
    ]
    return ChunkAnswer.model_validate({**rows[0], "chunks": chunks})


async def list_libraries(asked: ListLibraries, readable: Readable, queries: Queries) -> LibraryList:
    """Libraries by uid.

    Raises:
        Rejected: the cursor is not valid.
        Unavailable: Postgres cannot be used right now.
    """
    rows = await queries.libraries(readable, key_of(asked.cursor, 1), asked.limit + 1)
    lines = [LibraryLine.model_validate(row) for row in rows[: asked.limit]]
    return LibraryList(libraries=lines, next_cursor=_behind(rows, asked.limit, "library"))


async def list_collections(asked: ListCollections, readable: Readable, queries: Queries) -> CollectionList:
    """Collections by library and name.

    Raises:
        Rejected: the cursor is not valid.
        Unavailable: Postgres cannot be used right now.
    """
    behind = key_of(asked.cursor, 2)
    rows = await queries.collections(_only(asked.library, readable), behind, asked.limit + 1)
    lines = [CollectionLine.model_validate(row) for row in rows[: asked.limit]]
    return CollectionList(collections=lines, next_cursor=_behind(rows, asked.limit, "library", "collection"))


async def list_items(asked: ListItems, readable: Readable, queries: Queries) -> ItemList:
    """Documents by library, collection and path.

    Raises:
        Rejected: the cursor is not valid.
        Unavailable: Postgres cannot be used right now.
    """
    behind = key_of(asked.cursor, 3)
    rows = await queries.items(_only(asked.library, readable), asked.collection, behind, asked.limit + 1)
    lines = [ItemLine.model_validate(row) for row in rows[: asked.limit]]
    return ItemList(items=lines, next_cursor=_behind(rows, asked.limit, "library", "collection", "path"))


def _only(library: str | None, readable: Readable) -> Readable:
    """Only this library. One that the caller may not read is left out, like an unknown one."""
    return readable if library is None else readable_among(readable, [library])


def _behind(rows: Sequence[Line], limit: int, *key: str) -> str | None:
    if len(rows) <= limit:
        return None
    return cursor_of(*(rows[limit - 1][name] for name in key))


async def get_health(database: Callable[[], str | None], changes: Callable[[], str | None]) -> Health:
    """`error` without the database, `degraded` if changes of libraries may be unknown, else `ok`."""
    now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
    if database() is not None:
        return Health(status="error", timestamp=now, message="the database cannot be used right now")
    missing = changes()
    return Health(status="degraded" if missing else "ok", timestamp=now, message=missing)
