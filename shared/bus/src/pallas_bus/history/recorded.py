"""Recorded messages: the stored messages of all streams of the catalogue, ordered by the time of storing.

They are read in batches, so a span of time may hold more than fits into memory.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from datetime import datetime

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read
from pallas_bus.transport.subjects import overlap
from pallas_contracts.catalog import BLOBS, STREAMS
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Recorded:
    """A stored message and the name of its stream."""

    stream: str
    record: Record


def streams_of(subject: str) -> tuple[Stream, ...]:
    """The streams of the catalogue that may hold messages (not blobs) on `subject` (wildcards allowed)."""
    bytes_only = {blob.stream.name for blob in BLOBS}
    streams = [stream for stream in STREAMS if stream.name not in bytes_only]
    return tuple(stream for stream in streams if any(overlap(subject, each) for each in stream.subjects))


async def recorded(
    bus: Bus, subject: str, *, since: datetime, until: datetime | None = None
) -> AsyncGenerator[Recorded]:
    """Yield the messages that were stored on `subject` from `since` to `until`, of all streams, by time.

    Messages that are stored meanwhile may be included. A stream that does not exist yet is left out.

    Raises:
        Unavailable: the broker does not answer.
    """
    async with AsyncExitStack() as stack:
        heads: list[tuple[Recorded, AsyncGenerator[Recorded]]] = []
        for stream in streams_of(subject):
            source = await stack.enter_async_context(aclosing(_source(bus, stream.name, subject, since, until)))
            if (first := await anext(source, None)) is not None:
                heads.append((first, source))
        while heads:
            earliest = min(heads, key=lambda head: head[0].record.time)
            heads.remove(earliest)
            yield earliest[0]
            if (following := await anext(earliest[1], None)) is not None:
                heads.append((following, earliest[1]))


async def _source(
    bus: Bus, stream: str, subject: str, since: datetime, until: datetime | None
) -> AsyncGenerator[Recorded]:
    try:
        async for record in read(bus, stream, subject, since=since):
            if until is not None and record.time > until:
                return
            yield Recorded(stream, record)
    except Unavailable as error:
        if error.code != "no_stream":
            raise
