"""Every message of the streams as it is stored, for people who look on. What a lost connection cost is read again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from nats.aio.msg import Msg

from pallas_bus.history.recorded import Recorded, streams_of
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read, record_of
from pallas_bus.transport.streams import live_subject
from pallas_contracts.errors import Unavailable

_RETRY = 0.5


@dataclass
class _Tail:
    """One stream: what is heard is held back while what was missed is read."""

    bus: Bus
    stream: str
    subject: str
    into: asyncio.Queue[Recorded]
    position: int = 0
    current: int | None = None
    """How often the connection had broken when this was last known to have missed nothing; None before it began."""
    held: list[Record] = field(default_factory=list[Record])

    def hear(self, record: Record) -> None:
        if self.current != self.bus.breaks:
            self.held.append(record)
        elif record.seq > self.position:
            self.position = record.seq
            self.into.put_nowait(Recorded(self.stream, record))

    async def begin(self, since: datetime | None) -> None:
        """Take what was stored from `since` on; without it, only what comes now."""
        if since is None:
            self.position = await self._last()
        await self.catch_up(since)

    async def catch_up(self, since: datetime | None = None) -> None:
        """Read what was stored since the last look, until the connection holds for a whole reading."""
        while True:
            breaks = self.bus.breaks
            try:
                last = await self._last()
                async for record in read(self.bus, self.stream, self.subject, after=self.position, since=since):
                    self.into.put_nowait(Recorded(self.stream, record))
                    self.position, since = record.seq, None
                self.position = max(self.position, last)
            except Unavailable as error:
                if error.code == "no_stream":
                    raise
                await asyncio.sleep(_RETRY)
            else:
                if breaks == self.bus.breaks:
                    break
        self.current = breaks
        held, self.held = self.held, []
        for record in held:
            self.hear(record)

    async def _last(self) -> int:
        info = await self.bus.api(f"STREAM.INFO.{self.stream}", {})
        last: int = info["state"]["last_seq"]
        return last


@asynccontextmanager
async def tail_streams(
    bus: Bus, subject: str, *, since: datetime | None = None
) -> AsyncGenerator[asyncio.Queue[Recorded]]:
    """Put every message on `subject` (wildcards allowed, below `pallas.v1.`) into a queue as it is stored.

    With `since`, what has been stored from then on comes first, stream by stream. A stream that nobody has declared is
    left out.

    Raises:
        Unavailable: the broker does not answer.
    """
    queue: asyncio.Queue[Recorded] = asyncio.Queue()
    streams = [stream for stream in streams_of(subject) if stream.live is not None]
    tails = {stream.name: _Tail(bus, stream.name, subject, queue) for stream in streams}

    async def heard(message: Msg) -> None:
        headers = message.headers or {}
        if (tail := tails.get(headers.get("Nats-Stream", ""))) is not None:
            tail.hear(record_of(message))

    async def reread() -> None:
        await asyncio.gather(*(tail.catch_up() for tail in tails.values() if tail.current is not None))

    async with AsyncExitStack() as stack:
        for prefix in {stream.live for stream in streams if stream.live}:
            subscription = await bus.subscribe(live_subject(subject, prefix), heard)
            stack.push_async_callback(bus.unsubscribe, subscription)
        await asyncio.sleep(0)  # else the ping of the flush may overtake the subscriptions
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
