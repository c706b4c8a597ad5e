"""What the tools answer, as structured content; the text of an answer is the same as JSON."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True)


class Passage(Answer):
    """A chunk that was found. `score` only compares with others of the same search."""

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
    text: str = Field(description="Parts of the chunk, with the words that were found between **.")


class Found(Answer):
    """The best passages first. `next_offset` is where the next ones begin, null when there are no more."""

    results: list[Passage]
    next_offset: int | None = None


class DocumentAnswer(Answer):
    """A document with its text from `offset` on; `next_offset` is where it goes on, null at its end."""

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
    """A chunk. `start` is the character of its document at which it begins."""

    chunk: str
    start: int
    heading: str
    page: int | None = None
    text: str


class ChunkAnswer(Answer):
    """A chunk with those around it, in the document's order. Neighbours repeat a few words of each other."""

    document: str
    library: str
    collection: str
    path: str
    title: str
    chunks: list[ChunkText]


class LibraryLine(Answer):
    """A library and what is in it."""

    library: str
    name: str
    collections: int
    documents: int


class LibraryList(Answer):
    """Libraries by uid. `next_cursor` asks for more of them, null when there are none."""

    libraries: list[LibraryLine]
    next_cursor: str | None = None


class CollectionLine(Answer):
    """A collection of a library."""

    library: str
    collection: str
    documents: int


class CollectionList(Answer):
    """Collections by library and name. `next_cursor` asks for more of them, null when there are none."""

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
    """Documents by library, collection and path. `next_cursor` asks for more of them, null when there are none."""

    items: list[ItemLine]
    next_cursor: str | None = None


class Health(Answer):
    """How the service is. `message` says what is wrong."""

    status: Literal["ok", "degraded", "error"]
    timestamp: str
    message: str | None = None
