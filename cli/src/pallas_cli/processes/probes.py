"""Asking a process whether it is there, over plain sockets.

Every probe answers False instead of raising, because "not yet" is the usual answer while a stack starts. They use no
HTTP library: importing one takes longer than a server takes to start.
"""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from pallas_cli.processes.launch import Probe

_TIMEOUT = 2.0


async def _exchange(host: str, port: int, request: bytes) -> bytes:
    """Send `request` and return the first piece of the answer; empty when there is none."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                return await reader.read(256)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, ValueError):
        return b""


async def http_status(url: str) -> int:
    """Return the status of a GET of `url`, or 0 when nothing answers."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    head = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    words = (await _exchange(host, port, head.encode())).split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def answers_ok(url: str) -> Probe:
    """A probe that GETs `url` and wants 200."""

    async def probe() -> bool:
        return await http_status(url) == 200

    return probe


def says(host: str, port: int, request: bytes, answer: bytes) -> Probe:
    """A probe that sends `request` and wants an answer that starts with `answer`."""

    async def probe() -> bool:
        return (await _exchange(host, port, request)).startswith(answer)

    return probe


def accepts(host: str, port: int) -> Probe:
    """A probe that only wants the port to be listened on."""

    async def probe() -> bool:
        try:
            async with asyncio.timeout(_TIMEOUT):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    return probe
