"""Reads a stream backwards, in windows, so that what is wanted last is found without reading all of it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read
from pallas_contracts.contract import Stream


async def windows(
    bus: Bus,
    stream: Stream,
    *subjects: str,
    size: int,
    since: datetime | None = None,
    until: datetime | None = None,
    needle: bytes = b"",
) -> AsyncGenerator[list[Record]]:
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
        begin = await _position(bus, stream, since, otherwise=end)
    if until is not None:
        end = await _position(bus, stream, until, otherwise=end)
    while begin < end:
        start = max(begin, end - size)
        yield [
            it for subject in subjects async for it in _window(bus, stream, subject, start, end) if needle in it.data
        ]
        end, size = start, size * 2


async def _window(bus: Bus, stream: Stream, subject: str, start: int, end: int) -> AsyncGenerator[Record]:
    async with aclosing(read(bus, stream.name, subject, after=start - 1)) as records:
        async for record in records:
            if record.seq >= end:
                return
            yield record


async def _position(bus: Bus, stream: Stream, moment: datetime, *, otherwise: int) -> int:
    """The position of the first message that was stored at `moment` or later."""
    async with aclosing(read(bus, stream.name, ">", since=moment, batch=1)) as records:
        first = await anext(records, None)
    return first.seq if first is not None else otherwise
