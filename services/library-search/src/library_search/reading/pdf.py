"""PDF, page by page. A file may be made to use up time and memory, so it is read in a process with limits.

Run as `python -m library_search.reading.pdf`, this is that process: the file comes in, the pages go out as JSON.
"""

import asyncio
import io
import json
import logging
import math
import resource
import sys
from dataclasses import asdict, dataclass
from typing import Any

from library_search.model import DocumentText, Section
from pallas_contracts.errors import Rejected, Unavailable


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading a PDF may take.

    `memory` is address space, in bytes: 3000 pages of text take 130 MiB, a file of 30 MiB with pictures takes 125. It
    is part of what the container may use. `text` is in bytes, too: pages may share what stands on them, so a small file
    may have much.
    """

    seconds: float = 60
    memory: int = 384 * 1024**2
    text: int = 32 * 1024**2


LIMITS = Limits()
TOO_MUCH = "the PDF takes too much time or memory to read"
_BETWEEN = "\n\n"


async def read_pdf(content: bytes, limits: Limits = LIMITS) -> DocumentText:
    """Read a PDF.

    Raises:
        Rejected: it is none, it is encrypted, or it takes too much to read.
        Unavailable: no process can be started.
    """
    said = await _in_a_process(content, limits)
    if "error" in said:
        raise Rejected(said["error"], code="unreadable")
    pages: list[str] = said["pages"]
    sections: list[Section] = []
    start = 0
    for number, page in enumerate(pages, 1):
        sections.append(Section(start, start + len(page) + len(_BETWEEN), page=number))
        start = sections[-1].end
    return DocumentText("".join(page + _BETWEEN for page in pages), tuple(sections), said["title"])


async def _in_a_process(content: bytes, limits: Limits) -> dict[str, Any]:
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-I", "-m", __name__, json.dumps(asdict(limits))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise Unavailable("no PDF can be read right now; try again", code="no_process") from error
    try:
        async with asyncio.timeout(limits.seconds):
            out, _ = await process.communicate(content)
    except TimeoutError:
        return {"error": f"the PDF could not be read within {limits.seconds:g} s"}
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
    limits = Limits(**json.loads(sys.argv[1]))
    seconds = math.ceil(limits.seconds)
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    logging.disable(logging.CRITICAL)
    said = _read(sys.stdin.buffer.read(), limits.text)
    sys.stdout.buffer.write(json.dumps(said, ensure_ascii=False).encode())


def _read(content: bytes, longest: int) -> dict[str, Any]:
    from pypdf import PdfReader
    from pypdf.errors import LimitReachedError

    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "the PDF needs a password"}
        pages: list[str] = []
        for page in reader.pages:
            pages.append(_clean(page.extract_text()))
            longest -= len(pages[-1].encode())
            if longest < 0:
                return {"error": "there is too much text in the PDF"}
        title = _clean((reader.metadata.title if reader.metadata else None) or "").strip() or None
    except (MemoryError, LimitReachedError):
        return {"error": TOO_MUCH}
    return {"pages": pages, "title": title}


def _clean(text: str) -> str:
    """Text that can be stored: without NUL, and with every character whole."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


if __name__ == "__main__":
    main()
