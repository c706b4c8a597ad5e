"""Stores the chunks of a document, in batches.

A statement has a timeout of a few seconds, and indexing all chunks of a large document takes longer. A batch takes a
fraction of the timeout.
"""

from collections.abc import Sequence

from sqlalchemy import ARRAY, Integer, String, TableValuedAlias, Text, Uuid, column, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from library_search.model import Chunk
from library_search.store.words import words_of
from library_search.tables import Chunk as ChunkRow

BATCH = 500
_COLUMNS = ("document_id", "library_uid", "position", "start", "page", "heading", "text", "words")


async def put_chunks(
    session: AsyncSession, languages: Sequence[str], ids: tuple[str, str], title: str, chunks: Sequence[Chunk]
) -> None:
    """Store all chunks of a document that has none. `ids` are the ids of the document and its library."""
    document, library = literal(ids[0], Uuid(as_uuid=False)), literal(ids[1], Text)
    for first in range(0, len(chunks), BATCH):
        new = _rows(chunks[first : first + BATCH], first, title)
        words = words_of(languages, new.c.title, new.c.heading, new.c.text)
        facts = (new.c.position, new.c.start, new.c.page, new.c.heading, new.c.text)
        values = select(document, library, *facts, words)
        await session.execute(insert(ChunkRow).from_select(_COLUMNS, values))


def _rows(chunks: Sequence[Chunk], first: int, title: str) -> TableValuedAlias:
    # The title is indexed with the first chunk only: else a word of the title would find all chunks.
    titles = ["" if first + number else title for number in range(len(chunks))]
    rows = func.unnest(
        literal(list(range(first, first + len(chunks))), ARRAY(Integer)),
        literal([chunk.start for chunk in chunks], ARRAY(Integer)),
        literal([chunk.page for chunk in chunks], ARRAY(Integer)),
        literal([chunk.heading for chunk in chunks], ARRAY(Text)),
        literal([chunk.text for chunk in chunks], ARRAY(Text)),
        literal(titles, ARRAY(Text)),
    ).table_valued(
        *(column(name, Integer) for name in ("position", "start", "page")),
        *(column(name, String) for name in ("heading", "text", "title")),
        name="new",
    )
    return rows.render_derived()
