"""A file's bytes into its text, by the kind that its name tells."""

import asyncio
from pathlib import PurePosixPath

from library_search.model import DocumentText, Section
from library_search.reading.markdown import read_markdown
from library_search.reading.pdf import read_pdf
from pallas_contracts.errors import Rejected

MARKDOWN, PLAIN, PDF = "text/markdown", "text/plain", "application/pdf"
KINDS = {".md": MARKDOWN, ".markdown": MARKDOWN, ".txt": PLAIN, ".text": PLAIN, ".pdf": PDF}
"""Endings of names, and what they mean."""

READER = "1"
"""Changed whenever documents are read or cut in another way: what was read before is then read again."""


def kind_of(path: str) -> str:
    """The media type of a file.

    Raises:
        Rejected: files of this kind are not read.
    """
    ending = PurePosixPath(path).suffix.lower()
    if ending not in KINDS:
        raise Rejected(f"path: files of the kind {ending!r} are not read; {', '.join(KINDS)} are", field="path")
    return KINDS[ending]


async def read_file(content: bytes, kind: str) -> DocumentText:
    """Read a file of that media type.

    Raises:
        Rejected: it cannot be read, or there is no text in it.
        Unavailable: it cannot be read right now.
    """
    if kind == PDF:
        read = await read_pdf(content)
    else:
        text = _decoded(content)
        whole = DocumentText(text, (Section(0, len(text)),))
        read = await asyncio.to_thread(read_markdown, text) if kind == MARKDOWN else whole
    if not read.text.strip():
        hint = " (of a scanned PDF, text has to be recognised first)" if kind == PDF else ""
        raise Rejected(f"there is no text in it{hint}", code="no_text")
    return read


def _decoded(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Rejected(f"it is not UTF-8 text (byte {error.start})", code="unreadable") from error
    if "\0" in text:
        raise Rejected("it is not text: there is a NUL character in it", code="unreadable")
    return text.replace("\r\n", "\n").replace("\r", "\n")
