"""A file's bytes into its text, by the kind that its name tells."""

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


def read_document(content: bytes, kind: str, longest: int) -> DocumentText:
    """Read a file of that media type; of a PDF at most `longest` bytes of text are read.

    Only the reading process does this: a file may be made to use up time and memory.

    Raises:
        Rejected: it cannot be read, or there is no text in it.
        MemoryError: it takes more memory than the process may use.
    """
    if kind == PDF:
        read = read_pdf(content, longest)
    else:
        text = _decoded(content)
        read = read_markdown(text) if kind == MARKDOWN else DocumentText(text, (Section(0, len(text)),))
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
