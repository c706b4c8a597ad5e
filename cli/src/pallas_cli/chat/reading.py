"""Reads what is typed or piped into a chat."""

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress


async def messages(message: str | None, *, prompt: bool) -> AsyncGenerator[str]:
    """Yield the one message, or else each line of standard input."""
    if message is not None:
        yield message
        return
    while (line := await _next_line("> " if prompt else "")) is not None:
        if line.strip():
            yield line.strip()


async def _next_line(prompt: str) -> str | None:
    """Read a line in a daemon thread, so that a blocked prompt does not delay Ctrl-C."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str | None] = loop.create_future()

    def deliver(read: str | None) -> None:
        if not line.done():
            line.set_result(read)

    def read() -> None:
        found = _read_line(prompt)
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(deliver, found)

    threading.Thread(target=read, daemon=True).start()
    return await line


def _read_line(prompt: str) -> str | None:
    """Return the next line, or None at the end of input. On a terminal, `input` supports line editing."""
    if prompt and sys.stdin.isatty():
        try:
            return input(prompt)
        except EOFError:
            return None
    return sys.stdin.readline() or None
