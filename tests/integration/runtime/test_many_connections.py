"""A process answers its probes while many connections are opened at once, and each of them asks for something."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import psutil
import pytest
from tests.embedded import free_port
from tests.waiting import soon

SERVICE = Path(__file__).parent.parent / "runtime_service.py"
CONNECTIONS = 1500
WITHIN = 0.5
"""Seconds of the process's own time: how much of a busy machine it gets is not its doing."""
REQUESTS = {
    "silent": b"",
    "half a body": b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
    "whole": b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n",
}


@asynccontextmanager
async def a_process() -> AsyncGenerator[tuple[psutil.Process, int]]:
    port = free_port()
    environ = {**os.environ, "PALLAS_PORT": str(port), "PALLAS_LOG_LEVEL": "ERROR"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SERVICE), "fine"), env=environ, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        await soon(process.stdout.readline())
        yield psutil.Process(process.pid), port
    finally:
        process.kill()
        await process.communicate()


async def is_live(port: int) -> bool:
    """Ask on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200")


def open_at_once(port: int, request: bytes, opened: ExitStack) -> None:
    connections = [opened.enter_context(socket.socket()) for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.connect(("127.0.0.1", port))
    for connection in connections:
        connection.sendall(request)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.mark.parametrize("what", REQUESTS)
async def test_probes_are_answered_while_many_connections_are_opened(what: str, opened: ExitStack) -> None:
    async with a_process() as (process, port):
        assert await soon(is_live(port))
        opening = asyncio.create_task(asyncio.to_thread(open_at_once, port, REQUESTS[what], opened))
        slowest = 0.0
        while not opening.done():
            before = sum(process.cpu_times()[:2])
            assert await soon(is_live(port))
            slowest = max(slowest, sum(process.cpu_times()[:2]) - before)
        await opening
    assert slowest < WITHIN
