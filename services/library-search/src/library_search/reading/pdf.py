"""Reads PDF, page by page. Only the child process does this: a malicious file may use up time and memory."""

import io

from library_search.model import DocumentText, Section
from pallas_contracts.errors import Rejected

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
