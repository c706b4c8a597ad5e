"""A reader of events that never reads costs the others nothing, and only so much memory."""

import asyncio
import gc
import socket
import statistics
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.integration.workspaces.lab import API, Lab, a_workspaces, headers_of
from tests.waiting import soon

from workspaces.chat.views import conversation_topic
from workspaces.live.hub import ALL, MOST_WAITING, Live

READERS = 200
ROUNDS = 9
PIECE = 20_000


class Reader:
    """Reads a stream as fast as it comes, and counts the events of a kind."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Condition()

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Read until the end."""
        while line := await reader.readline():
            if line == b"event: workspace\n":
                async with self._changed:
                    self.count += 1
                    self._changed.notify_all()

    async def has(self, count: int) -> None:
        """Wait until there were so many."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.count >= count)


@asynccontextmanager
async def a_connection(lab: Lab, path: str) -> AsyncGenerator[asyncio.StreamReader]:
    """An open stream whose first event has been read. It holds little that nobody reads."""
    host, port = lab.base.removeprefix("http://").split(":")
    endpoint = socket.socket()
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    endpoint.setblocking(False)
    await asyncio.get_running_loop().sock_connect(endpoint, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=endpoint, limit=64 * 1024)
    try:
        writer.write(f"GET {API}{path} HTTP/1.1\r\n{headers_of(lab.browser)}\r\n".encode())
        await soon(reader.readuntil(b"event: ready"))
        yield reader
    finally:
        writer.close()


def waiting() -> int:
    """How many items the process keeps for its readers."""
    return sum(type(each) is Live for each in gc.get_objects())


async def test_a_reader_that_never_reads_neither_slows_the_others_nor_fills_the_memory(database: str) -> None:
    async with a_workspaces(postgres_url=database) as lab, AsyncExitStack() as stack:
        workspace = (await lab.browser.post(f"{API}/workspaces", json={"name": "one"})).json()["id"]
        made = await lab.browser.post(f"{API}/workspaces/{workspace}/conversations", json={})
        conversation = made.json()["id"]
        hub, loop, readers, told = lab.service.parts.hub, asyncio.get_running_loop(), list[Reader](), 0
        reading = await stack.enter_async_context(asyncio.TaskGroup())
        for _ in range(READERS - 1):
            stream, reader = await stack.enter_async_context(a_connection(lab, "/events")), Reader()
            stack.callback(reading.create_task(reader.read(stream)).cancel)
            readers.append(reader)

        async def flood(pieces: int) -> None:
            nonlocal told
            for _ in range(pieces):
                told += 1
                said = {"message_id": "m", "attempt": 1, "text": f"{told}".ljust(PIECE)}
                await hub.tell(conversation_topic(conversation), "text", said)
                await asyncio.sleep(0)

        async def rounds() -> float:
            """The median of the seconds in which an event reaches everybody, while others are told."""
            took = list[float]()
            for _ in range(ROUNDS):
                await flood(50)
                since, count = loop.time(), readers[0].count + 1
                await hub.tell(ALL, "workspace", {"id": workspace})
                await soon(asyncio.gather(*(reader.has(count) for reader in readers)))
                took.append(loop.time() - since)
            return statistics.median(took)

        before = await rounds()  # nobody follows the conversation
        await stack.enter_async_context(a_connection(lab, f"/conversations/{conversation}/events"))
        await flood(MOST_WAITING + 100)
        during = await rounds()
        kept = waiting()
        assert during < 2 * before + 0.1
        assert kept <= MOST_WAITING + 100
