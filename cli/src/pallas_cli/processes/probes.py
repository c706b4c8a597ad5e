"""Probes of processes over plain sockets.

A probe returns False instead of raising, because "not ready" is the usual answer while a stack starts. Probes use no
HTTP library: its import takes longer than the start of a server.
"""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from pallas_cli.processes.child import Probe

ROOM = 16 * 1024**2
"""Bytes that a disk must have free for a server to be started."""

_TIMEOUT = 2.0
_UNKNOWN = frozenset({0, 404, 503})
"""What a GET of an endpoint answers while its agent is not known."""


def answers_ok(url: str) -> Probe:
    """A probe that expects status 200 from a GET of `url`."""
    return _gets(url, lambda answer: _status(answer) == 200)


def is_known(url: str) -> Probe:
    """A probe that expects the gateway to know the agent with this endpoint."""
    return _gets(url, lambda answer: _status(answer) not in _UNKNOWN)


def complains(url: str, words: bytes) -> Probe:
    """A probe that expects `words` in the answer to a GET of `url`."""
    return _gets(url, lambda answer: words in answer)


def has_room(folder: Path) -> bool:
    """Whether the disk of `folder` has `ROOM` bytes free."""
    return shutil.disk_usage(folder).free >= ROOM


def with_room(folder: Path, probe: Probe) -> Probe:
    """The probe, which expects `ROOM` bytes on the disk of `folder`, too."""

    async def both() -> bool:
        return has_room(folder) and await probe()

    return both


def answers(host: str, port: int, request: bytes, answer: bytes) -> Probe:
    """A probe that sends `request` and expects an answer that starts with `answer`."""
    return _probe(host, port, request, lambda given: given.startswith(answer))


def accepts(host: str, port: int) -> Probe:
    """A probe that expects a listener on the port."""
    return _probe(host, port, b"", lambda _: True)


def _gets(url: str, expected: Callable[[bytes], bool]) -> Probe:
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    head = f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    return _probe(host, port, head.encode(), expected)


def _status(answer: bytes) -> int:
    """The status of an HTTP answer; 0 if there is none."""
    words = answer.split(maxsplit=2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _probe(host: str, port: int, request: bytes, expected: Callable[[bytes], bool]) -> Probe:
    """A probe that connects and, if there is a `request`, sends it and reads the beginning of the answer."""

    async def probe() -> bool:
        try:
            async with asyncio.timeout(_TIMEOUT):
                reader, writer = await asyncio.open_connection(host, port)
                try:
                    writer.write(request)
                    return expected(await reader.read(2048) if request else b"")
                finally:
                    writer.close()
                    with suppress(OSError):
                        await writer.wait_closed()
        except (OSError, TimeoutError, ValueError):
            return False

    return probe
