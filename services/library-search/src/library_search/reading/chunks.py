"""Cuts a text into chunks, within sections, at the end of a paragraph, a line, a sentence or a word."""

import re
from collections.abc import Iterator

from library_search.model import Chunk, DocumentText, Section

SIZE = 1000
"""Maximum number of characters of a chunk."""
OVERLAP = 150
"""Characters, roughly, that a chunk shares with the next one of its section."""

_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?])\s"), re.compile(r"\s"))
"""Where to cut, in order of preference."""


def chunks_of(read: DocumentText, *, size: int = SIZE, overlap: int = OVERLAP) -> list[Chunk]:
    """The chunks in order. Each is a substring of the text; together they cover all of it but white space."""
    return [chunk for section in read.sections for chunk in _cut(read.text, section, size, overlap)]


def _cut(text: str, section: Section, size: int, overlap: int) -> Iterator[Chunk]:
    start = section.start
    while start < section.end:
        end = section.end
        if end - start > size:
            end = _last_end(text, start + size // 2, start + size) or start + size
        piece = text[start:end]
        if stripped := piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            yield Chunk(first, stripped, section.heading, section.page)
        if end == section.end:
            return
        start = max(start + 1, _first_end(text, end - overlap, end) or end)


def _last_end(text: str, low: int, high: int) -> int | None:
    for pattern in _ENDS:
        if ends := [found.end() for found in pattern.finditer(text, low, high)]:
            return ends[-1]
    return None


def _first_end(text: str, low: int, high: int) -> int | None:
    """The start of the overlap: after the first end of a sentence, or of a word."""
    for pattern in _ENDS[2:]:
        if (found := pattern.search(text, low, high)) is not None and found.end() < high:
            return found.end()
    return None
