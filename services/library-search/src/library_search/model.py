"""What documents are made of, and who may read them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a text, from character `start` to before `end`: what stands below one heading, or on one page."""

    start: int
    end: int
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A file as text. The sections follow each other and cover the text."""

    text: str
    sections: tuple[Section, ...]
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text that is found and shown as a whole."""

    start: int
    text: str
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as text, and the chunks that it is cut into, in its order."""

    text: str
    chunks: tuple[Chunk, ...]
    title: str | None = None


type Readable = Mapping[str, str | None]
"""The libraries that a caller may read: their identities by uid. Without any it is nothing, never everything.

A library that was made under the uid of a deleted one has another identity; one from before there were any has None.
"""


def narrowed(readable: Readable, uids: Iterable[str]) -> Readable:
    """Those of the libraries that have one of these uids."""
    return {uid: readable[uid] for uid in uids if uid in readable}


_DOCUMENT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHUNK = re.compile(rf"({_DOCUMENT.pattern}):(0|[1-9][0-9]{{0,6}})")


def is_document_id(text: str) -> bool:
    """Whether `text` can be the id of a document, which is a UUID in small letters."""
    return _DOCUMENT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ChunkId:
    """A chunk by its document and its place there, counted from 0. Written `{document}:{position}`."""

    document: str
    position: int

    def __str__(self) -> str:
        return f"{self.document}:{self.position}"

    @staticmethod
    def parse(text: str) -> "ChunkId | None":
        """The id that is written so, None when it is none."""
        found = _CHUNK.fullmatch(text)
        return ChunkId(found[1], int(found[2])) if found else None
