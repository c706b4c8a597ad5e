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
    """A library, as the last event about it says. One from before there were identities has none."""

    __tablename__ = "libraries"
    uid: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    workspace_id: Mapped[str | None]
    identity: Mapped[str | None]


class Document(Base):
    """A document. `digest` is that of the file it was read from, and of how it was read."""

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
    """A chunk. `words` are what it is found by. It repeats its document's library, by which it is filtered."""

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
    """One row: the last change of a library that is in the tables, by its number and its place in the stream.

    `stream` says when the stream was made of which that is a place.
    """

    __tablename__ = "changes_position"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger)
    place: Mapped[int] = mapped_column(BigInteger)
    stream: Mapped[str | None]


class Indexed(Base):
    """One row: the languages by which `words` were made, separated by commas."""

    __tablename__ = "indexed"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    languages: Mapped[str]
