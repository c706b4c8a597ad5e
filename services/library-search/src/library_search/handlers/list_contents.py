"""Lists the libraries that the caller may read, their collections and their documents."""

from collections.abc import Sequence

from library_search.handlers.answers import CollectionLine, CollectionList, ItemLine, ItemList, LibraryLine, LibraryList
from library_search.handlers.arguments import ListCollections, ListItems, ListLibraries, cursor_of, key_of
from library_search.model import Readable, readable_among
from library_search.store.queries import Line, Queries


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
