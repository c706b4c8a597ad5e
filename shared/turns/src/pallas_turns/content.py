"""Offloads content of requests, results and journals that is too big for a message, and fetches it again.

A small one is sent as it is. Readers call `whole_request`, `whole_result` or `whole_entry` in all cases.
"""

import asyncio
import hashlib
from itertools import batched
from typing import Any

from pydantic import Field

from pallas_bus.connection import Bus
from pallas_bus.headers import time_to_live
from pallas_bus.reads import read, read_newest
from pallas_contracts.catalog import OBJECT_PART, TURN_OBJECTS
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.message import Message
from pallas_contracts.turns import Answered, JsonObject, Offloaded, Result, TurnError, TurnRequested
from pallas_turns.claims import TurnRef

OFFLOAD_ABOVE = 256 * 1024
"""Bytes of a message above which its content is offloaded, so that readers of the stream need not receive it."""

MAX_OFFLOADED = 16 * 1024 * 1024
"""Bytes of the largest result or entry that is offloaded."""

_REQUEST = "request"


class _Given(Message):
    """The offloaded content of a request."""

    arguments: JsonObject = Field(default_factory=dict[str, Any])
    input_responses: JsonObject | None = None
    request_state: str | None = None


class _Answered(Message):
    """The offloaded content of a result."""

    content: tuple[JsonObject, ...] = ()
    structured: Any = None
    meta: JsonObject | None = None


def heaviest(bus: Bus) -> int:
    """Bytes of the largest message that is sent without offloading."""
    return min(OFFLOAD_ABOVE, bus.client.max_payload - HEADERS)


async def offload_request(
    bus: Bus, request: TurnRequested, call: str | None = None, *, ttl: float | None = None
) -> TurnRequested:
    """The request as it is sent: if it is too big, its content is offloaded, for `ttl` seconds.

    An argument that is the caller's conversation id stays in the message, so that it is removed with the message.
    `call` names this one of the calls that may make the turn: its object is then its own (`request_object`).

    Raises:
        Unavailable: the broker did not acknowledge; the call may be repeated.
        Rejected: it is too big even without its content (`too_large`).
    """
    if len(request.model_dump_json().encode()) <= heaviest(bus):
        return request
    stays = {
        name: value
        for name, value in request.arguments.items()
        if request.correlation is not None and value == request.correlation
    }
    given = _Given(
        arguments={name: value for name, value in request.arguments.items() if name not in stays},
        input_responses=request.input_responses,
        request_state=request.request_state,
    )
    light = {"arguments": stays, "input_responses": None, "request_state": None}
    if len(request.model_copy(update=light).model_dump_json().encode()) > heaviest(bus):
        raise Rejected(f"turn {request.turn_id!r} is too large even without its arguments", code="too_large")
    # Several calls may use one idempotency key, with different arguments.
    name = _REQUEST if request.digest is None else request_object(call or request.digest)
    claim_check = await offload(bus, TurnRef.of(request), name, given.model_dump_json().encode(), ttl=ttl)
    return request.model_copy(update=light | {"stowed": claim_check})


def request_object(call: str) -> str:
    """The name of the object with the content of one of the calls that may make a turn."""
    return f"{_REQUEST}-{call}"


async def whole_request(bus: Bus, request: TurnRequested) -> TurnRequested:
    """The request with its whole content.

    Raises:
        NotFound: the offloaded content has expired (`content_expired`).
        Rejected: the offloaded content is damaged (`content_damaged`).
        Unavailable: the broker does not answer.
    """
    if request.stowed is None:
        return request
    given = _Given.model_validate_json(await fetch(bus, TurnRef.of(request), request.stowed))
    return request.model_copy(
        update={
            "arguments": {**given.arguments, **request.arguments},
            "input_responses": given.input_responses,
            "request_state": given.request_state,
            "stowed": None,
        }
    )


async def offload_result(bus: Bus, ref: TurnRef, attempt: int, result: Result, *, ttl: float) -> Result:
    """The result as it is sent: if it is too big, its content is offloaded for `ttl` seconds.

    Raises:
        Unavailable: the broker did not acknowledge; the call may be repeated.
        Rejected: it is larger than `MAX_OFFLOADED` (`too_large`).
    """
    if len(result.model_dump_json().encode()) <= heaviest(bus):
        return result
    content = _Answered(content=result.content, structured=result.structured, meta=result.meta)
    data = content.model_dump_json().encode()
    if len(data) > MAX_OFFLOADED:
        raise Rejected(f"the result of turn {ref.turn_id!r} is too large", code="too_large")
    claim_check = await offload(bus, ref, f"result-{attempt}", data, ttl=ttl)
    return result.model_copy(update={"content": (), "structured": None, "meta": None, "stowed": claim_check})


async def whole_result(bus: Bus, ref: TurnRef, result: Result) -> Result:
    """The result with its whole content; raises as `whole_request` does."""
    if result.stowed is None:
        return result
    answered = _Answered.model_validate_json(await fetch(bus, ref, result.stowed))
    update = {"content": answered.content, "structured": answered.structured, "meta": answered.meta, "stowed": None}
    return result.model_copy(update=update)


async def offload_entry(bus: Bus, ref: TurnRef, attempt: int, entry: Answered, *, ttl: float) -> Answered:
    """The entry of the journal as it is sent: its answer is offloaded for `ttl` seconds. Raises as `offload_result`."""
    data = (entry.answer or "").encode()
    if len(data) > MAX_OFFLOADED:
        raise Rejected(f"the answer of call {entry.call!r} is too large", code="too_large")
    name = f"answer-{attempt}-{hashlib.sha256(entry.call.encode()).hexdigest()[:16]}"
    return entry.model_copy(update={"answer": None, "stowed": await offload(bus, ref, name, data, ttl=ttl)})


async def whole_entry(bus: Bus, ref: TurnRef, entry: Answered) -> Answered:
    """The entry with its answer; raises as `whole_request` does."""
    if entry.stowed is None:
        return entry
    return entry.model_copy(update={"answer": (await fetch(bus, ref, entry.stowed)).decode(), "stowed": None})


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


async def drop(bus: Bus, ref: TurnRef, name: str | None = None) -> None:
    """Remove all objects of the turn, or the one of that name.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    await bus.api(f"STREAM.PURGE.{TURN_OBJECTS.name}", {"filter": objects_of(ref, name)})


def objects_of(ref: TurnRef, name: str | None = None) -> str:
    """The subject filter that matches all parts of all objects of the turn, or of the one of that name."""
    named = {"name": name} if name is not None else {}
    return OBJECT_PART.template.filter(team=ref.team, agent=ref.agent, turn=ref.turn_id, **named)


def _subject(ref: TurnRef, name: str, part: int) -> str:
    return OBJECT_PART.template.subject(team=ref.team, agent=ref.agent, turn=ref.turn_id, name=name, part=str(part))
