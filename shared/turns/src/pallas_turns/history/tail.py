"""Follows all messages of the streams as they are stored. What was missed while disconnected is read afterwards."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from pallas_bus.connection import Bus, Msg
from pallas_bus.errors import retry_while_unavailable
from pallas_bus.reads import Record, read, record_of
from pallas_bus.streams import LIVE_PREFIX, live_subject
from pallas_contracts.catalog import (
    TURN_CLAIM,
    TURN_CONTENT,
    TURN_EVENT,
    TURN_OUTCOME,
    TURN_QUEUE,
    TURN_REQUESTED,
)
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import TurnClaim, TurnEvents, TurnOutcome, TurnRequested
from pallas_turns.history.replays import Recorded, streams_of

log = logging.getLogger(__name__)


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


type Entry = TurnRequested | TurnClaim | TurnEvents | TurnOutcome

_MESSAGES: dict[str, type[Entry]] = {
    TURN_REQUESTED.name: TurnRequested,
    TURN_CLAIM.name: TurnClaim,
    TURN_EVENT.name: TurnEvents,
    TURN_CONTENT.name: TurnEvents,
    TURN_OUTCOME.name: TurnOutcome,
}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One message of a turn: its position in its stream, the name of its contract, and the decoded message."""

    position: int
    contract: str
    entry: Entry


def entry_of(message: Recorded) -> LogEntry | None:
    """Decode a stored message; None if it is no message of a turn or cannot be decoded."""
    contract = ".".join(message.record.subject.split(".")[2:4])
    try:
        return LogEntry(message.record.seq, contract, _MESSAGES[contract].model_validate_json(message.record.data))
    except (KeyError, ValidationError):
        log.warning("unreadable turn message", extra={"subject": message.record.subject})
        return None


@asynccontextmanager
async def watch_turns(
    bus: Bus, on_record: Callable[[Record], None], on_lost: Callable[[], None]
) -> AsyncGenerator[None]:
    """Call `on_record` for every request, claim (or cancel) and outcome inside the block.

    `on_lost` is called when the connection was lost and is back: messages may be missing.

    Raises:
        Unavailable: the connection is closed.
    """

    def arrived(message: Msg) -> None:
        on_record(record_of(message))

    async def reconnected() -> None:
        on_lost()

    async with AsyncExitStack() as stack:
        for contract in (TURN_REQUESTED, TURN_CLAIM, TURN_OUTCOME):
            prefix = TURN_QUEUE.live if contract is TURN_REQUESTED else LIVE_PREFIX
            subscription = await bus.listen(live_subject(contract.template.filter(), prefix or LIVE_PREFIX), arrived)
            stack.push_async_callback(bus.unsubscribe, subscription)
        stack.callback(bus.on_reconnect(reconnected))
        await bus.flush()
        yield
