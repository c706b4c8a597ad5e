"""Reads documents and chunks. Those that the caller may not read are not found, like unknown ones."""

from library_search.handlers.answers import ChunkAnswer, ChunkText, DocumentAnswer
from library_search.handlers.arguments import GetChunk, GetDocument
from library_search.model import ChunkId, Readable
from library_search.store.queries import Queries
from pallas_contracts.errors import NotFound


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
