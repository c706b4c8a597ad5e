"""Reads the text of a file, by the media type that the ending of its name stands for."""

from pathlib import PurePosixPath

from library_search.model import DocumentText, Section
from library_search.reading.markdown import read_markdown
from library_search.reading.pdf import read_pdf
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
