"""Reads a stream backwards, in windows, so that what is wanted last is found without reading all of it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read
from pallas_contracts.contract import Stream

LARGEST = 100_000
"""Positions of the largest window."""


@dataclass(frozen=True, slots=True)
class Window:
    """The messages that were found from the position `start` on, up to the window before."""

    start: int
    records: list[Record]


async def windows(
    bus: Bus,
    stream: Stream,
    *subjects: str,
    size: int,
    since: datetime | None = None,
    until: datetime | None = None,
    needle: bytes = b"",
) -> AsyncGenerator[Window]:
    """Yield the messages on `subjects` that were stored from `since` to before `until`, the latest window first.

    The first window has `size` positions, and each further one twice as many. In a window, the messages are in the
    order of the subjects, and those of each in the order of the log. Messages without the bytes `needle` are left out.

    Raises:
        Unavailable: the broker does not answer.
    """
    state = (await bus.api(f"STREAM.INFO.{stream.name}", {}))["state"]
    begin: int = state["first_seq"]
    end: int = state["last_seq"] + 1
    if since is not None:
        begin = await position_at(bus, stream, since, otherwise=end)
    if until is not None:
        end = await position_at(bus, stream, until, otherwise=end)
    while begin < end:
        start = max(begin, end - size)
        records = [record for subject in subjects async for record in _window(bus, stream, subject, start, end)]
        yield Window(start, [record for record in records if needle in record.data])
        end, size = start, min(size * 2, LARGEST)


async def time_at(bus: Bus, stream: Stream, position: int) -> datetime | None:
    """When the first message from `position` on was stored; None: there is none."""
    async with aclosing(read(bus, stream.name, ">", after=position - 1, batch=1)) as records:
        first = await anext(records, None)
    return first.time if first is not None else None


async def _window(bus: Bus, stream: Stream, subject: str, start: int, end: int) -> AsyncGenerator[Record]:
    async with aclosing(read(bus, stream.name, subject, after=start - 1)) as records:
        async for record in records:
            if record.seq >= end:
                return
            yield record


async def position_at(bus: Bus, stream: Stream, moment: datetime, *, otherwise: int) -> int:
    """The position of the first message that was stored at `moment` or later."""
    async with aclosing(read(bus, stream.name, ">", since=moment, batch=1)) as records:
        first = await anext(records, None)
    return first.seq if first is not None else otherwise
