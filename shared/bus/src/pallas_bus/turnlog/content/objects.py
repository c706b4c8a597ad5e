"""Objects: offloaded content in the stream `TURN_OBJECTS`, in parts, under the id of its turn.

nats-py's object store is not used. It reads through an ordered consumer, which gets nothing for seconds after the
broker has restarted, while a turn waits for its arguments; direct reads need no consumer. Parts without a time to live
of their own live as long as the stream keeps messages. They are removed together with the turn's content.
"""

import asyncio
import hashlib
from itertools import batched

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.headers import time_to_live
from pallas_bus.transport.reads import read, read_newest
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import OBJECT_PART, TURN_OBJECTS
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.turns import Offloaded, TurnError

_EXPIRED: TurnError = "content_expired"
_DAMAGED: TurnError = "content_damaged"

PART = 512 * 1024
"""Bytes of a part, unless the broker's limit is lower."""

HEADERS = 4096
"""Bytes that are reserved for the headers of a message, which count towards the broker's limit."""

_AT_ONCE = 4
"""Parts that are put before the first of them is acknowledged."""


async def offload(bus: Bus, ref: TurnRef, name: str, data: bytes, *, ttl: float | None = None) -> Offloaded:
    """Store `data` as an object of the turn, for `ttl` seconds, and return its claim check.

    An object of the same name is replaced.

    Raises:
        Unavailable: the broker did not acknowledge every part; the call may be repeated.
    """
    size = min(PART, bus.max_payload - HEADERS)
    parts = [data[start : start + size] for start in range(0, len(data), size)]
    headers = time_to_live(ttl) if ttl is not None else None
    for some in batched(enumerate(parts), _AT_ONCE, strict=False):
        puts = (bus.put(_subject(ref, name, number), part, headers) for number, part in some)
        for result in await asyncio.gather(*puts, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
    return Offloaded(name=name, parts=len(parts), size=len(data), sha256=hashlib.sha256(data).hexdigest())


async def fetch(bus: Bus, ref: TurnRef, claim_check: Offloaded) -> bytes:
    """Read the object of a claim check.

    Raises:
        NotFound: the object has expired (`content_expired`).
        Rejected: its size or digest is wrong (`content_damaged`).
        Unavailable: the broker does not answer.
    """
    every = OBJECT_PART.template.filter(team=ref.team, agent=ref.agent, turn=ref.turn_id, name=claim_check.name)
    found = {record.subject: record.data async for record in read(bus, TURN_OBJECTS.name, every)}
    parts: list[bytes] = []
    for number in range(claim_check.parts):
        subject = _subject(ref, claim_check.name, number)
        part = found.get(subject)
        if part is None:  # the replica that answered may be behind the leader
            newest = await read_newest(bus, TURN_OBJECTS.name, subject)
            if newest is None:
                raise NotFound(f"object {claim_check.name!r} of turn {ref.turn_id!r} is gone", code=_EXPIRED)
            part = newest.data
        parts.append(part)
    data = b"".join(parts)
    if len(data) != claim_check.size or hashlib.sha256(data).hexdigest() != claim_check.sha256:
        raise Rejected(f"object {claim_check.name!r} of turn {ref.turn_id!r} is damaged", code=_DAMAGED)
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
