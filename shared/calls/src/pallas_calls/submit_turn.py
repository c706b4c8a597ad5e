"""Make a call a turn: an id, a message in the agent's queue, and a feed that has missed nothing of it.

Whether a message was stored is not known when its confirmation stays out. So it is put again, and when that does not
help either, the turn is cancelled before its caller is told to try again: what was refused is never executed. With an
idempotency key trying again is the same turn, so that is only left then.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from opentelemetry.trace import SpanKind, StatusCode

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import Stored
from pallas_bus.turnlog.content.claim_checks import heaviest, offload_request
from pallas_bus.turnlog.content.objects import drop
from pallas_bus.turnlog.feed import TurnFeed
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.queue import about_queue, submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.cancel_turn import cancel_turn
from pallas_calls.model import Call, Refusal
from pallas_contracts.agents import AgentDefinition, ToolDefinition
from pallas_contracts.errors import PallasError, Rejected, Unavailable
from pallas_contracts.ids import new_turn_id
from pallas_contracts.keyed import LogKey
from pallas_contracts.message import utc_now
from pallas_contracts.turns import (
    FinalEvent,
    JsonObject,
    LogMessage,
    ModelCalled,
    TextDelta,
    TurnEvent,
    TurnRequested,
    types_of,
)
from pallas_runtime.telemetry import tracer

RETRY_AFTER_MS = 1000

PATIENCE = 3.0
"""Seconds for which a turn is put into its queue again and again."""

_TRY = 1.0
_PAUSE = 0.1

_NOT_RELAYED = types_of(TextDelta, ModelCalled)
"""A model's text and its cost stay in the log."""

ONLY_THE_END = types_of(TurnEvent) - types_of(FinalEvent, LogMessage)
"""What a caller who gave no progress token is not told either."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A turn under way: what happens to it comes through `feed`; `position` is its place in the queue's stream.

    The position is 0 when the broker has not told it. `joined` means that an earlier call with its key has made the
    turn.
    """

    request: TurnRequested
    feed: TurnFeed
    position: int
    joined: bool = False


def make_request(
    key: LogKey, definition: AgentDefinition, tool: ToolDefinition, arguments: JsonObject, call: Call
) -> TurnRequested:
    """The turn that a checked call asks for. With an idempotency key its id follows from key, caller and tool."""
    turn_id, digest = new_turn_id(), None
    if call.key is not None:
        whose = (call.principal.type, call.principal.id, definition.team, definition.agent, tool.name, call.key)
        turn_id = key.turn_id(*whose, call.input_responses, call.request_state)
        digest = key.digest(tool.name, arguments)
    correlation = arguments.get(tool.correlation) if tool.correlation else None
    if not isinstance(correlation, str):
        correlation = None
    return TurnRequested(
        turn_id=turn_id,
        team=definition.team,
        agent=definition.agent,
        tool=tool.name,
        arguments=arguments,
        principal=call.principal,
        correlation=correlation,
        conversation=key.conversation(correlation) if correlation is not None else None,
        client=call.client,
        input_responses=call.input_responses,
        request_state=call.request_state,
        digest=digest,
        requested_at=utc_now(),
    )


def not_relayed(*, progress: bool) -> frozenset[str]:
    """The types of events that a caller is not told, by whether it wants progress."""
    return _NOT_RELAYED if progress else ONLY_THE_END


async def submit_turn(bus: Bus, feeds: TurnFeeds, request: TurnRequested) -> Submitted | Refusal:
    """Put the turn into its queue, and beside it what is too big for that.

    A refusal means that it is not executed, in there or not; with an idempotency key it may be in there.
    """
    about = about_queue(request, "send")
    with tracer.start_as_current_span("submit_turn", kind=SpanKind.PRODUCER, attributes=about) as span:
        submitted = await _submit(bus, feeds, request)
        if isinstance(submitted, Refusal):
            span.set_attribute("error.type", submitted.code)
            span.set_status(StatusCode.ERROR)
        return submitted


async def _submit(bus: Bus, feeds: TurnFeeds, request: TurnRequested) -> Submitted | Refusal:
    light: TurnRequested | None = None
    feed = feeds.open(TurnRef.of(request), skip=not_relayed(progress=request.client.progress))
    try:
        light = await offload_request(bus, request)
        stored = await _put(bus, light)
    except (Unavailable, Rejected) as error:
        if feed.attempt:
            # A worker has it, so it was stored, whatever became of the confirmation.
            return Submitted(light or request, feed, 0)
        feeds.close(feed)
        if light is None or light.stowed is not None:
            bus.spawn(_drop(bus, request))
        return _refused(bus, request, error)
    except BaseException:
        feeds.close(feed)
        if light is None:
            bus.spawn(_drop(bus, request))
        raise
    return Submitted(light, feed, stored.seq, joined=stored.duplicate and request.digest is not None)


async def _drop(bus: Bus, request: TurnRequested) -> None:
    """Remove what was stowed of a turn that is not executed; what cannot be removed now expires."""
    if request.digest is not None:
        return  # another call with its key may have made the turn, which needs it
    with suppress(PallasError):
        await drop(bus, TurnRef.of(request))


async def _put(bus: Bus, request: TurnRequested) -> Stored:
    """Put the turn in until that is confirmed. It has one message id, so it is stored once, however often it is sent.

    Raises:
        Unavailable: the queue is full (`queue_full`), or nothing was confirmed within `PATIENCE`: it may be in there.
        Rejected: the request is larger than the broker takes (`too_large`).
    """
    clock = asyncio.get_running_loop().time
    until = clock() + PATIENCE
    while True:
        try:
            async with asyncio.timeout_at(min(until, clock() + _TRY)):
                return await submit(bus, request)
        except TimeoutError:
            failure = Unavailable(f"turn {request.turn_id!r} was not confirmed in time")
        except Unavailable as error:
            failure = error
        if failure.code == "queue_full" or clock() + _PAUSE > until:
            raise failure
        await asyncio.sleep(_PAUSE)


def _refused(bus: Bus, request: TurnRequested, error: Unavailable | Rejected) -> Refusal:
    match error.code:
        case "queue_full":
            return Refusal(
                "busy", "The platform has no room for another turn. Try again shortly.", RETRY_AFTER_MS, limit="store"
            )
        case "too_large":
            return Refusal(
                "invalid_arguments",
                f"The call is too large even without its arguments; the limit is {heaviest(bus)} bytes.",
            )
        case _ if request.digest is not None:
            return not_confirmed(request)
        case _:
            bus.spawn(cancel_turn(bus, TurnRef.of(request), "it could not be stored in its queue"))
            return Refusal(
                "busy",
                "The platform cannot take turns right now. This one is cancelled; try again shortly.",
                RETRY_AFTER_MS,
                request.turn_id,
                limit="broker",
            )


def not_confirmed(request: TurnRequested) -> Refusal:
    """The refusal of a call with an idempotency key whose turn may be in its queue: it can be asked for again."""
    message = "The platform cannot take turns right now. Try again shortly with the same idempotency key."
    return Refusal("busy", message, RETRY_AFTER_MS, request.turn_id, limit="broker")
