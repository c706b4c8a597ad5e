"""Documents into the tables, each as a whole."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from library_search.adapters.chunk_rows import put_chunks
from library_search.model import Chunk
from library_search.tables import Chunk as ChunkRow
from library_search.tables import Document, Library
from pallas_contracts.errors import NotFound
from pallas_postgres.engine import postgres_errors, reading

type Done = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document stands: the library by its uid and identity."""

    library: str
    identity: str | None
    collection: str
    path: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What a document is, read and cut."""

    title: str
    media_type: str
    digest: str
    size: int
    text: str
    chunks: Sequence[Chunk]


class Documents:
    """Keeps documents. `languages` are those by which they are found."""

    def __init__(self, engine: AsyncEngine, languages: tuple[str, ...]) -> None:
        self._engine = engine
        self._languages = languages

    async def library(self, uid: str) -> Library | None:
        """The library of that uid."""
        async with reading(self._engine) as session:
            return await session.get(Library, uid)

    async def find(self, place: Place) -> tuple[str, str, int] | None:
        """Id, digest and number of chunks of the document that stands there."""
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
        """Store a document in the place of the one that stands there, and return its id.

        Raises:
            NotFound: there is no such library (any more).
            Unavailable: Postgres cannot be used right now.
        """
        same = (Library.uid == place.library) & Library.identity.is_not_distinct_from(place.identity)
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            # Locked, so that the library stays until the document is there, and is deleted with it.
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
        """Remove a document; return whether it was there.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        which = (Document.library_uid == library) & (Document.id == document)
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            removed = await session.execute(delete(Document).where(which).returning(Document.id))
            return removed.one_or_none() is not None


def no_library(uid: str) -> NotFound:
    """The error for a library that nobody knows."""
    return NotFound(f"there is no library {uid!r}", code="no_library")
