"""The process that reads files: `python -m library_search.reading.child`, with `Limits` as JSON as its argument.

It reads one file after another. A request is a line of JSON with `kind` and `size`, followed by the file. An answer is
a line with two sizes in bytes, followed by JSON (`title` and `chunks`, or `error` and `code`) and by the text.
"""

import json
import logging
import math
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

from library_search.reading.formats import TOO_MUCH, chunks_of, read_document
from pallas_contracts.errors import Rejected


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading one file may take.

    `memory` is the address space in bytes; it counts towards the limit of the container. `text` is in bytes: the pages
    of a PDF may share content, so a small file may have much text. `chunks` limits what is stored of a file.
    """

    seconds: float = 60
    memory: int = 512 * 1024**2
    text: int = 32 * 1024**2
    chunks: int = 100_000


LIMITS = Limits()


def main() -> None:
    """Answer requests on standard input until it ends."""
    limits = Limits(**json.loads(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    logging.disable(logging.CRITICAL)
    while line := sys.stdin.buffer.readline():
        asked = json.loads(line)
        # The parent ends this process after `seconds`. The CPU limit is for when the parent is gone.
        used, (_, hard) = time.process_time(), resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + limits.seconds), hard))
        try:
            answer, text = _read(sys.stdin.buffer.read(asked["size"]), asked["kind"], limits)
        except (MemoryError, RecursionError):
            answer, text = _refused(TOO_MUCH, "unreadable"), b""
        sys.stdout.buffer.write(b"%d %d\n" % (len(answer), len(text)))
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


def _read(content: bytes, kind: str, limits: Limits) -> tuple[bytes, bytes]:
    try:
        read = read_document(content, kind, limits.text)
    except Rejected as error:
        return _refused(error.message, error.code), b""
    chunks = chunks_of(read)
    if len(chunks) > limits.chunks:
        return _refused(f"the file has more than {limits.chunks} passages", "too_many_passages"), b""
    facts = [[chunk.start, chunk.start + len(chunk.text), chunk.heading, chunk.page] for chunk in chunks]
    answer = _as_json({"title": read.title, "chunks": facts})
    if len(answer) > limits.text:
        return _refused("the headings of the file are too long", "unreadable"), b""
    return answer, read.text.encode()


def _refused(reason: str, code: str) -> bytes:
    return _as_json({"error": reason, "code": code})


def _as_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


if __name__ == "__main__":
    main()
