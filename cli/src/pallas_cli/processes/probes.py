"""Probes of processes over plain sockets.

A probe returns False instead of raising, because "not ready" is the usual answer while a stack starts. Probes use no
HTTP library: its import takes longer than the start of a server.
"""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from pallas_cli.processes.launch import Probe

_TIMEOUT = 2.0
_UNKNOWN = frozenset({0, 404, 503})
"""What a GET of an endpoint answers while its agent is not known."""


async def _exchange(host: str, port: int, request: bytes) -> bytes:
    """Send `request` and return the beginning of the answer; empty if there is none."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                return await reader.read(2048)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, ValueError):
        return b""


async def http_status(url: str) -> int:
    """Return the status of a GET of `url`, or 0 if nothing answers."""
    words = (await _get(url)).split(maxsplit=2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


async def _get(url: str) -> bytes:
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    head = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    return await _exchange(host, port, head.encode())


def answers_ok(url: str) -> Probe:
    """A probe that expects status 200 from a GET of `url`."""

    async def probe() -> bool:
        return await http_status(url) == 200

    return probe


def complains(url: str, words: bytes) -> Probe:
    """A probe that expects `words` in the answer to a GET of `url`."""

    async def probe() -> bool:
        return words in await _get(url)

    return probe


def is_known(url: str) -> Probe:
    """A probe that expects the gateway to know the agent with this endpoint."""

    async def probe() -> bool:
        return await http_status(url) not in _UNKNOWN

    return probe


def answers(host: str, port: int, request: bytes, answer: bytes) -> Probe:
    """A probe that sends `request` and expects an answer that starts with `answer`."""

    async def probe() -> bool:
        return (await _exchange(host, port, request)).startswith(answer)

    return probe


def accepts(host: str, port: int) -> Probe:
    """A probe that expects a listener on the port."""

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
