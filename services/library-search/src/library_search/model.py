"""Documents, their parts, and what a caller may read."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """The characters of a text from `start` up to `end`, which are below one heading or on one page."""

    start: int
    end: int
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a file. The sections are in order and cover the text."""

    text: str
    sections: tuple[Section, ...]
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A substring of a text: the unit that search finds."""

    start: int
    text: str
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file, and its chunks in order."""

    text: str
    chunks: tuple[Chunk, ...]
    title: str | None = None


type Readable = Mapping[str, str | None]
"""The libraries that a caller may read: identities by uid. Empty means none, never all.

A library that reuses the uid of a deleted one has another identity. Libraries made before identities existed have None.
"""


def readable_among(readable: Readable, uids: Iterable[str]) -> Readable:
    """The readable libraries among these uids."""
    return {uid: readable[uid] for uid in uids if uid in readable}


_DOCUMENT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHUNK = re.compile(rf"({_DOCUMENT.pattern}):(0|[1-9][0-9]{{0,6}})")


def is_document_id(text: str) -> bool:
    """Whether `text` has the form of a document id: a UUID in lower case."""
    return _DOCUMENT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ChunkId:
    """A chunk by its document and its position there, from 0. Written `{document}:{position}`."""

    document: str
    position: int

    def __str__(self) -> str:
        return f"{self.document}:{self.position}"

    @staticmethod
    def parse(text: str) -> "ChunkId | None":
        """Parse an id. None if it is not valid."""
        found = _CHUNK.fullmatch(text)
        return ChunkId(found[1], int(found[2])) if found else None
