"""What is too big for a message: bytes in parts, beside the log, under the id of their turn.

This is not nats-py's object store, which reads through an ordered consumer: that hears nothing for seconds after the
broker has restarted, while a turn waits for its arguments. Direct reads need no consumer. The parts have no time to
live but the stream's unless they are given one; whoever ends a turn sees to it that they go with its content.
"""

import asyncio
import hashlib
import math
from itertools import batched

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read, read_newest
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import OBJECT_PART, TURN_OBJECTS
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.turns import Offloaded

PART = 512 * 1024
"""Bytes of a part, where the broker takes that much."""

HEADERS = 4096
"""Bytes of a message that its headers may take; the broker counts them too."""

_AT_ONCE = 4
"""Parts that are put before the first of them is confirmed."""


async def offload(bus: Bus, ref: TurnRef, name: str, data: bytes, *, ttl: float | None = None) -> Offloaded:
    """Store `data` as an object of the turn, for `ttl` seconds, and return its claim check.

    To stow again under the same name replaces what is there.

    Raises:
        Unavailable: the broker did not confirm every part; the call may be repeated.
    """
    size = min(PART, bus.max_payload - HEADERS)
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    headers = {"Nats-TTL": f"{max(1, math.ceil(ttl))}s"} if ttl is not None else None
    for some in batched(enumerate(parts), _AT_ONCE, strict=False):
        puts = (bus.put(_subject(ref, name, number), part, headers) for number, part in some)
        for result in await asyncio.gather(*puts, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
    return Offloaded(name=name, parts=len(parts), size=len(data), sha256=hashlib.sha256(data).hexdigest())


async def fetch(bus: Bus, ref: TurnRef, stowed: Offloaded) -> bytes:
    """Read what was stowed.

    Raises:
        NotFound: it is not there any more (`content_expired`).
        Rejected: it is not what was stowed (`content_damaged`).
        Unavailable: the broker does not answer.
    """
    every = OBJECT_PART.template.filter(team=ref.team, agent=ref.agent, turn=ref.turn_id, name=stowed.name)
    found = {record.subject: record.data async for record in read(bus, TURN_OBJECTS.name, every)}
    parts: list[bytes] = []
    for number in range(stowed.parts):
        subject = _subject(ref, stowed.name, number)
        part = found.get(subject)
        if part is None:  # a replica of the stream that is behind has not all: its leader has
            newest = await read_newest(bus, TURN_OBJECTS.name, subject)
            if newest is None:
                raise NotFound(f"object {stowed.name!r} of turn {ref.turn_id!r} is gone", code="content_expired")
            part = newest.data
        parts.append(part)
    data = b"".join(parts)
    if len(data) != stowed.size or hashlib.sha256(data).hexdigest() != stowed.sha256:
        raise Rejected(f"object {stowed.name!r} of turn {ref.turn_id!r} is damaged", code="content_damaged")
    return data


async def drop(bus: Bus, ref: TurnRef) -> None:
    """Remove all objects of the turn.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    await bus.api(f"STREAM.PURGE.{TURN_OBJECTS.name}", {"filter": objects_of(ref)})


def objects_of(ref: TurnRef) -> str:
    """The subject filter that matches all parts of all objects of the turn."""
    return OBJECT_PART.template.filter(team=ref.team, agent=ref.agent, turn=ref.turn_id)


def _subject(ref: TurnRef, name: str, part: int) -> str:
    return OBJECT_PART.template.subject(team=ref.team, agent=ref.agent, turn=ref.turn_id, name=name, part=str(part))
