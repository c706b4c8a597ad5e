"""The client's writes, as a broker sees them that is played by the test."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from nats.aio.msg import Msg
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.waiting import Collected, eventually, soon

from pallas_bus.connection import Bus, connect

_GREETING = b'INFO {"max_payload": 1048576, "headers": true}\r\n'
_PING = b"\r\nPING\r\n"


@dataclass
class Played:
    """What each connection has sent since it was accepted. A connection whose `reading` is not set reads nothing."""

    sent: list[bytearray] = field(default_factory=list[bytearray])
    grown: Collected[int] = field(default_factory=Collected[int])
    reading: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Accept one connection and answer its pings."""
        writer.write(_GREETING)
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        sent = bytearray()
        self.sent.append(sent)
        while await self.reading.wait() and (data := await reader.read(65536)):
            sent += data
            pings = sent[-len(data) - len(_PING) + 1 :].count(_PING)
            writer.write(b"PONG\r\n" * pings)
            self.grown.add(len(sent))
        writer.close()

    async def until_sent(self, connection: int, text: bytes) -> bytearray:
        """Wait until that connection has sent this."""
        await self.grown.until(lambda _: len(self.sent) > connection and text in self.sent[connection][-1_000_000:])
        return self.sent[connection]


@asynccontextmanager
async def played() -> AsyncGenerator[tuple[Played, Bus]]:
    """A broker that is played, and a connection to it."""
    broker = Played()
    broker.reading.set()
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0) as server:
        url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with connect(url, "tester") as bus:
            yield broker, bus
        server.close_clients()


async def test_the_connection_outlives_a_flush_that_is_cancelled(bus: Connecting) -> None:
    connection, arrived = await bus("tester"), Collected[bytes]()

    async def take(message: Msg) -> None:
        arrived.add(message.data)

    await connection.subscribe("tested.after", take)
    flushing = asyncio.create_task(connection.flush())
    await asyncio.sleep(0)
    flushing.cancel()
    await soon(connection.flush())
    await connection.send("tested.after", b"still there")
    assert await arrived.count(1) == [b"still there"]


async def test_a_flush_covers_what_was_sent_just_before() -> None:
    async with played() as (broker, bus):
        await bus.send("one", b"1", {"a": "b"})
        await bus.send("two", b"2")
        await soon(bus.flush())
        sent = bytes(broker.sent[0])
        block = b"NATS/1.0\r\na: b\r\n\r\n"
        assert b"HPUB one  18 19\r\n" + block + b"1\r\nPUB two  1\r\n2\r\nPING\r\n" in sent


async def test_what_is_sent_as_the_connection_breaks_is_written_to_the_next_one_after_its_handshake() -> None:
    async with played() as (broker, bus):
        await bus.flush()
        await bus.send("late", b"1")
        await bus.client.force_reconnect()  # before the message is written
        sent = await broker.until_sent(1, b"PUB late")
        assert b"late" not in broker.sent[0]
        assert sent.count(b"PUB late") == 1
        assert bus.breaks == 1


async def test_a_connection_that_is_away_can_be_closed_with_messages_pending(
    nats_server: NatsServer, bus: Connecting
) -> None:
    tester = await bus("tester", url=nats_server.url)
    nats_server.stop()
    await eventually(lambda: not tester.connected)
    await tester.send("late", b"1")
    await tester.stop()
    assert tester.client.is_closed
    assert tester.closed.is_set()
    assert tester.breaks == 2, "the client's clean-up ran to its end"


@pytest.mark.parametrize("passes", range(6))
async def test_a_connection_that_has_just_begun_to_reconnect_can_be_closed(passes: int) -> None:
    async with played() as (_, bus):
        await bus.client.force_reconnect()
        for _ in range(passes):  # of the event loop; in one of them the reconnect waits for the old connection's end
            await asyncio.sleep(0)
        await bus.stop()
        assert bus.client.is_closed


async def test_nothing_is_lost_or_reordered_while_the_broker_does_not_read() -> None:
    async with played() as (broker, bus):
        await bus.flush()
        broker.reading.clear()
        for number in range(100):
            await bus.send(f"part.{number}", b"x" * 200_000)
            await asyncio.sleep(0)
        assert bus.client.pending_data_size > 0, "the socket does not hold all of it"
        broker.reading.set()
        sent = bytes(await broker.until_sent(0, b"PUB part.99"))
        places = [sent.index(b"PUB part.%d " % number) for number in range(100)]
        assert places == sorted(places)


async def test_a_listener_that_raises_gets_the_messages_behind(nats_server: NatsServer, bus: Connecting) -> None:
    tester, heard = await bus("tester", url=nats_server.url), Collected[bytes]()

    def on_message(message: Msg) -> None:
        if message.data == b"1":
            raise RuntimeError("this one cannot be handled")
        heard.add(message.data)

    subscription = await tester.listen("numbers.*", on_message)
    for number in (b"1", b"2", b"3"):
        await tester.send("numbers.all", number)
    assert await heard.count(2) == [b"2", b"3"]
    await tester.unsubscribe(subscription)
    await tester.send("numbers.all", b"4")
    await tester.flush()
    assert heard.items == [b"2", b"3"]
