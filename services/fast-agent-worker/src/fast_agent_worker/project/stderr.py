"""What servers over stdio write on standard error: the last lines of each. fast-agent gives them /dev/null instead."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TextIO

from pallas_hosting.redact import redact

_LINES, _LONGEST = 20, 300
"""Lines that are kept of a server, and characters of each."""
_AT_ONCE = 64 * 1024

_last: dict[str, deque[str]] = {}
"""Of each server, the lines of the process that has written last."""


def last_lines(server: str) -> Sequence[str]:
    """The last lines of a server, the newest at the end, without credentials and addresses."""
    return tuple(redact(line)[:_LONGEST] for line in _last.get(server, ()))


def stderr_of(server_name: str, *, on_line: Callable[[str], None] | None = None) -> TextIO:
    """The standard error for the process of a server. It is read until all that have it have closed it."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    loop, lines, rest = asyncio.get_running_loop(), deque[str](maxlen=_LINES), bytearray()

    def keep(text: bytes | bytearray) -> None:
        if line := text.decode(errors="replace").strip():
            lines.append(line)
            _last[server_name] = lines
            if on_line is not None:
                on_line(line)

    def heard() -> None:
        data = b""
        with suppress(BlockingIOError):
            data = os.read(read, _AT_ONCE)
            if not data:
                loop.remove_reader(read)
                os.close(read)
                keep(rest)
        rest.extend(data)
        *whole, last = rest.split(b"\n")
        for line in whole:
            keep(line)
        rest[:] = last[-_AT_ONCE:]

    loop.add_reader(read, heard)
    return os.fdopen(write, "w")
