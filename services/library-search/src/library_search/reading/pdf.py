"""PDF, page by page. A file may be made to use up time and memory, so it is read in a process with limits.

Run as `python -m library_search.reading.pdf`, this is that process: the file comes in, the pages go out as JSON.
"""

import asyncio
import io
import json
import logging
import resource
import sys
from typing import Any

from library_search.model import DocumentText, Section
from pallas_contracts.errors import Rejected, Unavailable

SECONDS = 60
MEMORY_BYTES = 2 * 1024**3
TOO_MUCH = "the PDF takes too much time or memory to read"
_BETWEEN = "\n\n"


async def read_pdf(content: bytes, *, seconds: float = SECONDS) -> DocumentText:
    """Read a PDF.

    Raises:
        Rejected: it is none, it is encrypted, or it takes too much to read.
        Unavailable: no process can be started.
    """
    said = await _in_a_process(content, seconds)
    if "error" in said:
        raise Rejected(said["error"], code="unreadable")
    pages: list[str] = said["pages"]
    sections: list[Section] = []
    start = 0
    for number, page in enumerate(pages, 1):
        sections.append(Section(start, start + len(page) + len(_BETWEEN), page=number))
        start = sections[-1].end
    return DocumentText("".join(page + _BETWEEN for page in pages), tuple(sections), said["title"])


async def _in_a_process(content: bytes, seconds: float) -> dict[str, Any]:
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-m", __name__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise Unavailable("no PDF can be read right now; try again", code="no_process") from error
    try:
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate(content)
    except TimeoutError:
        return {"error": f"the PDF could not be read within {seconds:g} s"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        # A signal is one of the limits. A broken file breaks pypdf in ways that it does not list.
        too_much = process.returncode < 0
        return {"error": TOO_MUCH if too_much else "this is no PDF that can be read"}
    said: dict[str, Any] = json.loads(out)
    return said


def main() -> None:
    """Read standard input, write to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    logging.disable(logging.CRITICAL)
    json.dump(_read(sys.stdin.buffer.read()), sys.stdout)


def _read(content: bytes) -> dict[str, Any]:
    from pypdf import PdfReader

    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "the PDF needs a password"}
        pages = [_clean(page.extract_text()) for page in reader.pages]
        title = _clean((reader.metadata.title if reader.metadata else None) or "").strip() or None
    except MemoryError:
        return {"error": TOO_MUCH}
    return {"pages": pages, "title": title}


def _clean(text: str) -> str:
    """Text that can be stored: without NUL, and with every character whole."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


if __name__ == "__main__":
    main()
