"""Reads the text of a file, by the media type that the ending of its name stands for, and splits it into chunks."""

import io
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from markdown_it import MarkdownIt

from library_search.model import Chunk, DocumentText, Section
from pallas_contracts.errors import Rejected

MARKDOWN, PLAIN, PDF = "text/markdown", "text/plain", "application/pdf"
KINDS = {".md": MARKDOWN, ".markdown": MARKDOWN, ".txt": PLAIN, ".text": PLAIN, ".pdf": PDF}
"""Media types by ending."""

READER = "1"
"""Version of reading and cutting. After a change of it, an unchanged file is read again."""


def kind_of(path: str) -> str:
    """The media type of a file.

    Raises:
        Rejected: the kind of file is not supported.
    """
    ending = PurePosixPath(path).suffix.lower()
    if ending not in KINDS:
        raise Rejected(
            f"path: files with the ending {ending!r} are not supported; use one of {', '.join(KINDS)}", field="path"
        )
    return KINDS[ending]


def read_document(content: bytes, kind: str, longest: int) -> DocumentText:
    """Read a file of that media type; of a PDF at most `longest` bytes of text are read.

    Only the child process does this: a malicious file may use up time and memory.

    Raises:
        Rejected: it cannot be read, or has no text.
        MemoryError: it takes more memory than the process may use.
    """
    if kind == PDF:
        read = read_pdf(content, longest)
    else:
        text = _decoded(content)
        read = read_markdown(text) if kind == MARKDOWN else DocumentText(text, (Section(0, len(text)),))
    if not read.text.strip():
        hint = " (a scanned PDF needs text recognition first)" if kind == PDF else ""
        raise Rejected(f"the file has no text{hint}", code="no_text")
    return read


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Rejected(f"the file is not UTF-8 text (byte {error.start})", code="unreadable") from error
    if "\0" in text:
        raise Rejected("the file is not text: it has a NUL character", code="unreadable")
    return text.replace("\r\n", "\n").replace("\r", "\n")


_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LONGEST_HEADING = 200
"""Maximum characters of a heading. Sections repeat the headings above them, and parsing takes superlinear time."""
_TITLE = re.compile(r"^title:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)


def read_markdown(text: str) -> DocumentText:
    """Find the sections of a Markdown text, which stays as it is. Lines must end with newlines only."""
    front = _FRONT_MATTER.match(text)
    begin = front.end() if front else 0
    headings = _headings(text, begin)
    sections: list[Section] = []
    above: list[tuple[int, str]] = []
    starts = [0, *(start for start, _, _ in headings), len(text)]
    sections.append(Section(0, starts[1]))
    for (_, level, name), (start, end) in zip(headings, pairwise(starts[1:]), strict=True):
        above = [*((depth, each) for depth, each in above if depth < level), (level, name)]
        sections.append(Section(start, end, " > ".join(each for _, each in above)))
    named = _TITLE.search(front[1]) if front else None
    title = named[1].strip("\"'") if named else next((name for _, _, name in headings), None)
    return DocumentText(text, tuple(section for section in sections if section.start < section.end), title or None)


def _headings(text: str, begin: int) -> list[tuple[int, int, str]]:
    """The start, level and name of each heading. A line in a code block is not a heading."""
    lines = [begin, *(begin + found.end() for found in re.finditer("\n", text[begin:]))]
    # Inline markup is parsed in headings only: it takes most of the time, and for some texts hours.
    references: dict[str, Any] = {}
    tokens = MarkdownIt("commonmark").disable("inline").parse(text[begin:], references)
    markup = MarkdownIt("commonmark")
    return [
        (lines[token.map[0]], int(token.tag[1:]), _plain(markup, inline.content, references))
        for token, inline in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


def _plain(markup: MarkdownIt, heading: str, references: dict[str, Any]) -> str:
    """A heading without its markup."""
    [inline] = markup.parseInline(heading[:_LONGEST_HEADING], references)
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline")).strip()


TOO_MUCH = "the file takes too much time or memory to read"
_BETWEEN = "\n\n"


def read_pdf(content: bytes, longest: int) -> DocumentText:
    """Read a PDF with at most `longest` bytes of text.

    Raises:
        Rejected: it is not a PDF, is encrypted, or takes too much time or memory.
        MemoryError: it takes more memory than the process may use.
    """
    from pypdf.errors import LimitReachedError

    try:
        return _read(content, longest)
    except (MemoryError, Rejected):
        raise
    except LimitReachedError as error:
        raise Rejected(TOO_MUCH, code="unreadable") from error
    except Exception as error:
        # A broken file breaks pypdf in ways that it does not list.
        raise Rejected("the file is not a readable PDF", code="unreadable") from error


def _read(content: bytes, longest: int) -> DocumentText:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise Rejected("the PDF needs a password", code="unreadable")
    pages: list[str] = []
    sections: list[Section] = []
    start = 0
    for number, page in enumerate(reader.pages, 1):
        pages.append(_clean(page.extract_text()) + _BETWEEN)
        longest -= len(pages[-1].encode())
        if longest < 0:
            raise Rejected("the PDF has too much text", code="unreadable")
        sections.append(Section(start, start + len(pages[-1]), page=number))
        start = sections[-1].end
    title = _clean((reader.metadata.title if reader.metadata else None) or "").strip() or None
    return DocumentText("".join(pages), tuple(sections), title)


def _clean(text: str) -> str:
    """Text that can be stored: without NUL and unpaired surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


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
