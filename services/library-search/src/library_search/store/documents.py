"""Stores documents and their chunks, each document in one transaction."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ARRAY, Integer, String, TableValuedAlias, Text, Uuid, column, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from library_search.model import Chunk
from library_search.store.queries import words_of
from library_search.tables import Chunk as ChunkRow
from library_search.tables import Document, Library
from pallas_contracts.errors import NotFound
from pallas_postgres.engine import postgres_errors, reading

type Status = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document is: library (by uid and identity), collection and path."""

    library: str
    identity: str | None
    collection: str
    path: str


@dataclass(frozen=True, slots=True)
class Contents:
    """A document that was read and cut into chunks."""

    title: str
    media_type: str
    digest: str
    size: int
    text: str
    chunks: Sequence[Chunk]


class Documents:
    """Stores documents, indexed in these languages."""

    def __init__(self, engine: AsyncEngine, languages: tuple[str, ...]) -> None:
        self._engine = engine
        self._languages = languages

    async def library(self, uid: str) -> Library | None:
        """The library with that uid; None if there is none."""
        async with reading(self._engine) as session:
            return await session.get(Library, uid)

    async def find(self, place: Place) -> tuple[str, str, int] | None:
        """Id, digest and number of chunks of the document in that place; None if there is none."""
        there = (
            Document.library_uid == place.library,
            Document.collection == place.collection,
            Document.path == place.path,
        )
        which = select(Document.id, Document.digest, Document.chunks).where(*there)
        async with reading(self._engine) as session:
            found = (await session.execute(which)).one_or_none()
        return (found[0], found[1], found[2]) if found else None

    async def put(self, place: Place, contents: Contents) -> str:
        """Create or replace the document in that place. Returns its id.

        Raises:
            NotFound: the library does not exist, or no longer.
            Unavailable: Postgres cannot be used right now.
        """
        same = (Library.uid == place.library) & Library.identity.is_not_distinct_from(place.identity)
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            # The lock delays a deletion of the library, which then deletes the document too.
            if await session.scalar(select(Library.uid).where(same).with_for_update(read=True, key_share=True)) is None:
                raise no_library(place.library)
            return await self._put(session, place, contents)

    async def _put(self, session: AsyncSession, place: Place, contents: Contents) -> str:
        facts = {
            "title": contents.title,
            "media_type": contents.media_type,
            "digest": contents.digest,
            "size": contents.size,
            "characters": len(contents.text),
            "chunks": len(contents.chunks),
            "text": contents.text,
        }
        where = {"library_uid": place.library, "collection": place.collection, "path": place.path}
        new = insert(Document).values(id=str(uuid.uuid4()), **where, **facts)
        stored = new.on_conflict_do_update(
            constraint="one_document_a_path", set_=facts | {"updated_at": func.now()}
        ).returning(Document.id)
        document: str = (await session.execute(stored)).scalar_one()
        await session.execute(delete(ChunkRow).where(ChunkRow.document_id == document))
        await put_chunks(session, self._languages, (document, place.library), contents.title, contents.chunks)
        return document

    async def remove(self, library: str, document: str) -> bool:
        """Delete a document. Returns whether it existed.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        which = (Document.library_uid == library) & (Document.id == document)
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            removed = await session.execute(delete(Document).where(which).returning(Document.id))
            return removed.one_or_none() is not None


def no_library(uid: str) -> NotFound:
    """The error for an unknown library."""
    return NotFound(f"there is no library {uid!r}", code="no_library")


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
