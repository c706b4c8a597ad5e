"""Every message of a stream from a position on, in order and for good, for a reader that keeps its own position.

A stream that is lost with the broker's store is made anew, and counts anew: a position is one of a stream that was made
at a certain time.
"""

import asyncio
import logging
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import BATCH, Record, read
from pallas_bus.transport.streams import live_subject
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
"""A look is taken so often even when nothing was heard: a replica of the stream may be behind what was heard."""
_RETRY = 0.5


class Reader(Protocol):
    """Who follows a stream. It may raise `Unavailable`, and is then asked again where to begin."""

    async def begin(self, made: str, last: int) -> int:
        """Where to go on in the stream that was made then and whose last position is `last`: behind which position.

        It is asked again when another stream has taken the place of that one.
        """
        ...

    async def take(self, record: Record) -> None:
        """Take the next message."""
        ...

    def caught_up(self) -> None:
        """Everything so far has been taken."""
        ...

    def waits(self) -> None:
        """Nothing can be read or taken right now."""
        ...


@dataclass
class _Place:
    """Where the reader is: behind `after` in the stream that was made then."""

    made: str
    after: int


class _Follower:
    """One that follows. `subject` may have wildcards."""

    def __init__(self, bus: Bus, stream: Stream, subject: str, reader: Reader) -> None:
        self._bus = bus
        self._stream = stream
        self._subject = subject
        self._reader = reader
        self._place: _Place | None = None

    async def catch_up(self) -> None:
        """Have everything taken that is stored."""
        made, last = await self._end()
        place = self._place
        if place is None or place.made != made or last < place.after:
            place = self._place = _Place(made, await self._reader.begin(made, last))
        records: list[Record] = []
        async with aclosing(read(self._bus, self._stream.name, self._subject, after=place.after)) as stored:
            async for record in stored:
                records.append(record)
                if len(records) == BATCH:
                    await self._hand_over(records, place)
                    records = []
        await self._hand_over(records, place)
        self._reader.caught_up()

    async def _hand_over(self, records: list[Record], place: _Place) -> None:
        if records and (await self._end())[0] != place.made:
            raise Unavailable(f"the stream {self._stream.name!r} was replaced by a new one", code="replaced")
        for record in records:
            await self._reader.take(record)
            place.after = record.seq

    def lose_place(self) -> None:
        """Ask the reader where to begin when there is something to read again."""
        self._place = None

    async def _end(self) -> tuple[str, int]:
        """When the stream was made, and its last position."""
        info = await self._bus.api(f"STREAM.INFO.{self._stream.name}", {})
        return info["created"], info["state"]["last_seq"]


async def follow(bus: Bus, stream: Stream, subject: str, reader: Reader) -> None:
    """Hand over what is stored on `subject` (wildcards allowed), then what comes, until this is cancelled.

    While the broker is away, the stream is not there yet, or the reader cannot take anything, this waits.
    """
    woken = asyncio.Event()

    async def heard(_: object) -> None:
        woken.set()

    async def reconnected() -> None:
        woken.set()

    assert stream.live is not None, "a stream that is followed is published again as it is stored"
    subscription = await bus.subscribe(live_subject(subject, stream.live), heard)
    remove = bus.on_reconnect(reconnected)
    follower = _Follower(bus, stream, subject, reader)
    told = False
    try:
        while True:
            woken.clear()
            try:
                await follower.catch_up()
                told = False
            except Unavailable as error:
                follower.lose_place()
                reader.waits()
                if not told:
                    log.warning("waiting for a stream", extra={"stream": stream.name, "reason": error.message})
                    told = True
                await asyncio.sleep(_RETRY)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await woken.wait()
    finally:
        remove()
        await bus.unsubscribe(subscription)
