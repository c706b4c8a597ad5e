"""Which parts of a request or an answer are stowed when they are too big to travel, and how they come back.

What is small enough travels as it is: a reader of either form calls `whole_request` or `whole_result`, and need not
know which one it has.
"""

from typing import Any

from pydantic import Field

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.content.objects import HEADERS, fetch, offload
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import Rejected
from pallas_contracts.message import Message
from pallas_contracts.turns import JsonObject, Result, TurnRequested

OFFLOAD_ABOVE = 256 * 1024
"""Bytes of a message above which its content is stowed, so that no reader of a stream has to carry it along."""

MAX_OFFLOADED = 16 * 1024 * 1024
"""Bytes of the largest answer that is stowed."""

_REQUEST = "request"


class _Given(Message):
    """What is stowed of a request."""

    arguments: JsonObject = Field(default_factory=dict[str, Any])
    input_responses: JsonObject | None = None
    request_state: str | None = None


class _Answered(Message):
    """What is stowed of a result."""

    content: tuple[JsonObject, ...] = ()
    structured: Any = None
    meta: JsonObject | None = None


def heaviest(bus: Bus) -> int:
    """The bytes of the largest message that travels as it is."""
    return min(OFFLOAD_ABOVE, bus.max_payload - HEADERS)


async def offload_request(bus: Bus, request: TurnRequested) -> TurnRequested:
    """The request as it travels: with what its caller gave stowed, when it is too big.

    An argument that is the caller's conversation id travels nevertheless, so that it leaves with the message.

    Raises:
        Unavailable: the broker did not confirm; the call may be repeated.
        Rejected: it is too big even so (`too_large`).
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
    # Of a turn with an idempotency key there may be several calls, which need not be the same.
    name = _REQUEST if request.digest is None else f"{_REQUEST}-{request.digest}"
    stowed = await offload(bus, TurnRef.of(request), name, given.model_dump_json().encode())
    return request.model_copy(update=light | {"stowed": stowed})


async def whole_request(bus: Bus, request: TurnRequested) -> TurnRequested:
    """The request with everything its caller gave.

    Raises:
        NotFound: what was stowed is gone (`content_expired`).
        Rejected: what was stowed is damaged (`content_damaged`).
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
    """The result as it travels: with what it says stowed for `ttl` seconds, when it is too big.

    Raises:
        Unavailable: the broker did not confirm; the call may be repeated.
        Rejected: it is larger than the platform takes (`too_large`).
    """
    if len(result.model_dump_json().encode()) <= heaviest(bus):
        return result
    said = _Answered(content=result.content, structured=result.structured, meta=result.meta)
    data = said.model_dump_json().encode()
    if len(data) > MAX_OFFLOADED:
        raise Rejected(f"the result of turn {ref.turn_id!r} is too large", code="too_large")
    stowed = await offload(bus, ref, f"result-{attempt}", data, ttl=ttl)
    return result.model_copy(update={"content": (), "structured": None, "meta": None, "stowed": stowed})


async def whole_result(bus: Bus, ref: TurnRef, result: Result) -> Result:
    """The result with everything it says; raises as `whole_request` does."""
    if result.stowed is None:
        return result
    said = _Answered.model_validate_json(await fetch(bus, ref, result.stowed))
    update = {"content": said.content, "structured": said.structured, "meta": said.meta, "stowed": None}
    return result.model_copy(update=update)
