"""The tables. Their history is in `migrations`."""

from datetime import datetime
from typing import ClassVar

from sqlalchemy import BigInteger, DateTime, ForeignKey, Index, Text, UniqueConstraint, Uuid, func
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables."""

    type_annotation_map: ClassVar = {str: Text(), datetime: DateTime(timezone=True)}


class Library(Base):
    """A library, as of the last event about it. Libraries made before identities existed have none."""

    __tablename__ = "libraries"
    uid: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    workspace_id: Mapped[str | None]
    identity: Mapped[str | None]


class Document(Base):
    """A document. `digest` is the version of the reader and the digest of the file."""

    __tablename__ = "documents"
    __table_args__ = (UniqueConstraint("library_uid", "collection", "path", name="one_document_a_path"),)
    id: Mapped[str] = mapped_column(Uuid(as_uuid=False), primary_key=True)
    library_uid: Mapped[str] = mapped_column(ForeignKey("libraries.uid", ondelete="CASCADE"))
    collection: Mapped[str]
    path: Mapped[str]
    title: Mapped[str]
    media_type: Mapped[str]
    digest: Mapped[str]
    size: Mapped[int]
    characters: Mapped[int]
    chunks: Mapped[int]
    text: Mapped[str]
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Chunk(Base):
    """A chunk. `words` is the search index. `library_uid` repeats that of the document, for filtering."""

    __tablename__ = "chunks"
    __table_args__ = (Index("chunks_words", "words", postgresql_using="gin"),)
    document_id: Mapped[str] = mapped_column(
        Uuid(as_uuid=False), ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    library_uid: Mapped[str] = mapped_column(index=True)
    start: Mapped[int]
    heading: Mapped[str]
    page: Mapped[int | None]
    text: Mapped[str]
    words: Mapped[str] = mapped_column(TSVECTOR)


class ChangesPosition(Base):
    """One row: the last applied change, by its number and its sequence number in the stream.

    `stream` is when that stream was created.
    """

    __tablename__ = "changes_position"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger)
    seq: Mapped[int] = mapped_column("place", BigInteger)
    stream: Mapped[str | None]


class Indexed(Base):
    """One row: the languages of the search index, separated by commas."""

    __tablename__ = "indexed"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    languages: Mapped[str]
