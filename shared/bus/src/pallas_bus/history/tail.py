"""Follows all messages of the streams as they are stored. What was missed while disconnected is read afterwards."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from nats.aio.msg import Msg

from pallas_bus.history.recorded import Recorded, streams_of
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read, record_of
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.transport.streams import live_subject
from pallas_contracts.errors import Unavailable


@dataclass
class _Tail:
    """One stream. Live messages are held back while the messages before them are read.

    `current` is the connection's `breaks` when this had last read everything; None before the first time.
    """

    bus: Bus
    stream: str
    subject: str
    into: asyncio.Queue[Recorded]
    position: int = 0
    current: int | None = None
    held: list[Record] = field(default_factory=list[Record])

    def on_record(self, record: Record) -> None:
        """Pass on a live message, or hold it back."""
        if self.current != self.bus.breaks:
            self.held.append(record)
        elif record.seq > self.position:
            self.position = record.seq
            self.into.put_nowait(Recorded(self.stream, record))

    async def begin(self, since: datetime | None) -> None:
        """Read what was stored from `since` on; None: begin with the messages that are stored from now on."""
        if since is None:
            self.position = await self._last()
        await self.catch_up(since)

    async def catch_up(self, since: datetime | None = None) -> None:
        """Read what has been stored since the last read; again if the connection broke meanwhile.

        Raises:
            Unavailable: there is no such stream (`no_stream`).
        """
        breaks = -1

        async def read_on() -> None:
            nonlocal breaks, since
            breaks, last = self.bus.breaks, await self._last()
            async for record in read(self.bus, self.stream, self.subject, after=self.position, since=since):
                self.into.put_nowait(Recorded(self.stream, record))
                self.position, since = record.seq, None
            self.position = max(self.position, last)

        while breaks != self.bus.breaks:
            await retry_while_unavailable(
                read_on, "read a stream", deadline=None, unless="no_stream", facts={"stream": self.stream}
            )
        self.current = breaks
        held, self.held = self.held, []
        for record in held:
            self.on_record(record)

    async def _last(self) -> int:
        info = await self.bus.api(f"STREAM.INFO.{self.stream}", {})
        last: int = info["state"]["last_seq"]
        return last


@asynccontextmanager
async def tail_streams(
    bus: Bus, subject: str, *, since: datetime | None = None
) -> AsyncGenerator[asyncio.Queue[Recorded]]:
    """Yield a queue into which every message on `subject` is put as it is stored, inside the block.

    `subject` may have wildcards and is below `pallas.v1.`. With `since`, the messages that were stored from then on
    come first, stream by stream. A stream that does not exist is left out.

    Raises:
        Unavailable: the broker does not answer.
    """
    queue: asyncio.Queue[Recorded] = asyncio.Queue()
    streams = [stream for stream in streams_of(subject) if stream.live is not None]
    tails = {stream.name: _Tail(bus, stream.name, subject, queue) for stream in streams}

    async def on_message(message: Msg) -> None:
        headers = message.headers or {}
        if (tail := tails.get(headers.get("Nats-Stream", ""))) is not None:
            tail.on_record(record_of(message))

    async def reread() -> None:
        await asyncio.gather(*(tail.catch_up() for tail in tails.values() if tail.current is not None))

    async with AsyncExitStack() as stack:
        for prefix in {stream.live for stream in streams if stream.live}:
            subscription = await bus.subscribe(live_subject(subject, prefix), on_message)
            stack.push_async_callback(bus.unsubscribe, subscription)
        await asyncio.sleep(0)  # in the same pass of the loop, nats-py would flush before it writes the subscriptions
        await bus.flush()
        stack.callback(bus.on_reconnect(reread))
        for tail in list(tails.values()):
            try:
                await tail.begin(since)
            except Unavailable as error:
                if error.code != "no_stream":
                    raise
                del tails[tail.stream]
        yield queue
