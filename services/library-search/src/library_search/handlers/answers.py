"""Answers of the tools, as structured content. The text content is the same as JSON."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True)


class Passage(Answer):
    """A chunk that was found. Compare its `score` only within the same search."""

    chunk: str
    document: str
    library: str
    library_name: str
    collection: str
    path: str
    title: str
    heading: str
    page: int | None = None
    score: float
    text: str = Field(description="Excerpts of the chunk. The words that were found are between **.")


class Found(Answer):
    """Passages, the best first. `next_offset` is the offset of the next page, null on the last one."""

    results: list[Passage]
    next_offset: int | None = None


class DocumentAnswer(Answer):
    """A document with its text from `offset` on. `next_offset` is the offset of the next part, null at the end."""

    document: str
    library: str
    library_name: str
    collection: str
    path: str
    title: str
    media_type: str
    chunks: int
    characters: int
    updated_at: datetime
    offset: int
    text: str
    next_offset: int | None = None


class ChunkText(Answer):
    """A chunk. `start` is the offset of its first character in the document."""

    chunk: str
    start: int
    heading: str
    page: int | None = None
    text: str


class ChunkAnswer(Answer):
    """A chunk and its neighbours, in the order of the document. Neighbours overlap by a few words."""

    document: str
    library: str
    collection: str
    path: str
    title: str
    chunks: list[ChunkText]


class LibraryLine(Answer):
    """A library, with the numbers of its collections and documents."""

    library: str
    name: str
    collections: int
    documents: int


class LibraryList(Answer):
    """Libraries by uid. `next_cursor` is the cursor of the next page, null on the last one."""

    libraries: list[LibraryLine]
    next_cursor: str | None = None


class CollectionLine(Answer):
    """A collection of a library."""

    library: str
    collection: str
    documents: int


class CollectionList(Answer):
    """Collections by library and name. `next_cursor` is the cursor of the next page, null on the last one."""

    collections: list[CollectionLine]
    next_cursor: str | None = None


class ItemLine(Answer):
    """A document, without its text."""

    document: str
    library: str
    collection: str
    path: str
    title: str
    media_type: str
    chunks: int
    characters: int
    updated_at: datetime


class ItemList(Answer):
    """Documents by library, collection and path. `next_cursor` is the cursor of the next page, null on the last one."""

    items: list[ItemLine]
    next_cursor: str | None = None


class Health(Answer):
    """The health of the service. `message` says what is wrong."""

    status: Literal["ok", "degraded", "error"]
    timestamp: str
    message: str | None = None
