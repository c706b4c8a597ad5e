"""Follow a stream: hand over every message from a position on, in order, to a reader that stores its position.

A stream that was lost with the broker's storage is created again, and its positions begin at 1 again. So a position
counts only together with the time at which its stream was created.
"""

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol

from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_bus.reads import BATCH, Record, read
from pallas_bus.streams import live_subject
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Unavailable

POLL_SECONDS = 2.0
"""Seconds between two polls without a notification: one may be lost, or the replica that was read may be behind it."""


class Reader(Protocol):
    """Handles the messages of a stream. When it raises `Unavailable`, `begin` is called again, after a pause."""

    async def begin(self, made: str, last: int) -> int:
        """Return the position behind which to read, in the stream that was created at `made` (ISO 8601).

        `last` is the position of the stream's last message. This is called again when the stream was created again.
        """
        ...

    async def take(self, record: Record) -> None:
        """Handle the next message."""
        ...

    def caught_up(self) -> None:
        """All stored messages were handled."""
        ...

    def waits(self) -> None:
        """The stream cannot be read, or a message cannot be handled, for now."""
        ...


@dataclass
class _Position:
    """The position `after`, in the stream that was created at `made`. Messages up to it were handled."""

    made: str
    after: int


class _Follower:
    """Reads a stream for a reader. `subject` may have wildcards."""

    def __init__(self, bus: Bus, stream: Stream, subject: str, reader: Reader) -> None:
        self._bus = bus
        self._stream = stream
        self._subject = subject
        self._reader = reader
        self._position: _Position | None = None

    async def catch_up(self) -> None:
        """Hand over all stored messages.

        Raises:
            Unavailable: the stream cannot be read or has been created again, or the reader raises it.
        """
        try:
            await self._read_on()
        except Unavailable:
            self._position = None
            self._reader.waits()
            raise

    async def _read_on(self) -> None:
        made, last = await self._end()
        position = self._position
        if position is None or position.made != made or last < position.after:
            position = self._position = _Position(made, await self._reader.begin(made, last))
        records: list[Record] = []
        async with aclosing(read(self._bus, self._stream.name, self._subject, after=position.after)) as stored:
            async for record in stored:
                records.append(record)
                if len(records) == BATCH:
                    await self._hand_over(records, position)
                    records = []
        await self._hand_over(records, position)
        self._reader.caught_up()

    async def _hand_over(self, records: list[Record], position: _Position) -> None:
        if records and (await self._end())[0] != position.made:
            raise Unavailable(f"the stream {self._stream.name!r} was replaced by a new one", code="replaced")
        for record in records:
            await self._reader.take(record)
            position.after = record.seq

    async def _end(self) -> tuple[str, int]:
        """The time at which the stream was created, and its last position."""
        info = await self._bus.api(f"STREAM.INFO.{self._stream.name}", {})
        return info["created"], info["state"]["last_seq"]


async def follow(bus: Bus, stream: Stream, subject: str, reader: Reader, *, poll: float | None = None) -> None:
    """Hand over the stored messages on `subject` (wildcards allowed), then each new one, until this is cancelled.

    With `poll`, new messages are read every so many seconds, not as soon as they are stored: for a stream with many.
    Retries while the broker is unavailable, the stream does not exist yet, or the reader raises `Unavailable`.
    """
    notified = asyncio.Event()

    async def on_message(_: object) -> None:
        notified.set()

    async def reconnected() -> None:
        notified.set()

    assert stream.live is not None, "a stream that is followed is republished as it is stored"
    live = live_subject(subject, stream.live)
    subscription = await bus.subscribe(live, on_message) if poll is None else None
    remove = bus.on_reconnect(reconnected)
    follower = _Follower(bus, stream, subject, reader)
    facts = {"stream": stream.name}
    try:
        while True:
            notified.clear()
            await retry_while_unavailable(follower.catch_up, "read a stream", deadline=None, facts=facts)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS if poll is None else poll):
                    await notified.wait()
    finally:
        remove()
        if subscription is not None:
            await bus.unsubscribe(subscription)
