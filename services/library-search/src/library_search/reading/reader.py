"""Reads files in a child process with limits of time and memory, which a malicious file may try to use up."""

import asyncio
import json
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from library_search.model import Chunk, FileText
from library_search.reading.child import LIMITS, Limits
from library_search.reading.formats import PDF, TOO_MUCH
from pallas_contracts.errors import Rejected, Unavailable

SMALL = 1024 * 1024
"""The process is kept after text files of at most so many bytes. After any other file it is ended."""


class Reader:
    """Reads one file at a time. The process starts with the first file; `close` ends it."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._lock = asyncio.Lock()
        self._process: Process | None = None

    async def read(self, content: bytes, kind: str) -> FileText:
        """Read a file of that media type and cut it into chunks.

        Raises:
            Rejected: it cannot be read, takes too much time or memory, or has no text.
            Unavailable: no process can be started.
        """
        async with self._lock:
            process = await self._running()
            try:
                async with asyncio.timeout(self._limits.seconds):
                    read = await _ask(process, content, kind)
            except TimeoutError as error:
                reason = f"the file could not be read within {self._limits.seconds:g} s"
                raise Rejected(reason, code="unreadable") from error
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                # The process has died: it reached a limit.
                raise Rejected(TOO_MUCH, code="unreadable") from error
            else:
                if kind != PDF and len(content) <= SMALL:
                    self._process = process
                return read
            finally:
                if self._process is None:
                    await _end(process)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            await _end(process)

    async def _running(self) -> Process:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            return process
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-m", "library_search.reading.child", json.dumps(asdict(self._limits))),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise Unavailable("files cannot be read right now; try again", code="no_process") from error


async def _ask(process: Process, content: bytes, kind: str) -> FileText:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"kind": kind, "size": len(content)}).encode() + b"\n")
    process.stdin.write(content)
    await process.stdin.drain()
    sizes = [int(size) for size in (await process.stdout.readuntil()).split()]
    answer, encoded = [await process.stdout.readexactly(size) for size in sizes]
    parsed: dict[str, Any] = json.loads(answer)
    if "error" in parsed:
        raise Rejected(parsed["error"], code=parsed["code"])
    text = encoded.decode()
    chunks = tuple(Chunk(start, text[start:end], heading, page) for start, end, heading, page in parsed["chunks"])
    return FileText(text, chunks, parsed["title"])


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()
