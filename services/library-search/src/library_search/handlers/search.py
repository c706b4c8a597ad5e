"""Finds passages in the libraries that the caller may read."""

from library_search.handlers.answers import Found, Passage
from library_search.handlers.arguments import LARGEST_OFFSET, Search
from library_search.model import ChunkId, Readable, readable_among
from library_search.store.queries import Queries
from library_search.store.words import parse_query


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
