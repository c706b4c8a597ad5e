"""Make a turn of a call: an id, a message in the agent's queue, and a feed of the turn from its beginning.

Without a confirmation it is not known whether the message was stored. So it is sent again, and when no confirmation
comes in time, the turn is cancelled before its caller is told to retry: a refused call is never executed. With an
idempotency key a retry is the same turn, so the turn is not cancelled.
"""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import SpanKind, StatusCode

from pallas_bus.connection import Bus
from pallas_bus.errors import Stored, retry_while_unavailable
from pallas_contracts.agents import AgentDefinition, ToolDefinition
from pallas_contracts.errors import NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.ids import new_turn_id
from pallas_contracts.keyed import LogKey
from pallas_contracts.message import utc_now
from pallas_contracts.turns import (
    KNOWN_EVENTS,
    Answered,
    FinalEvent,
    HandedBack,
    JsonObject,
    LogMessage,
    ModelCalled,
    ModelFailed,
    TextDelta,
    TurnEvent,
    TurnRequested,
    events_of,
)
from pallas_runtime.telemetry import tracer
from pallas_schemas.schema import Schema
from pallas_turns.cancel import cancel_turn
from pallas_turns.claims import TurnRef, find_turn
from pallas_turns.content import drop, heaviest, offload_request, request_object
from pallas_turns.feed import TurnFeed
from pallas_turns.feeds import TurnFeeds
from pallas_turns.model import AGENT_RETRY_AFTER_MS, Call, Refusal
from pallas_turns.queue import about_queue, submit

RETRY_AFTER_MS = 1000

_LEADER_RETRY_AFTER_MS = 5000
"""Milliseconds that a cluster takes to elect leaders when its brokers are back."""

SUBMIT_TIMEOUT = 3.0
"""Seconds in which the broker must confirm that a turn is in its queue."""

_TRY = 1.0
_PAUSE = 0.1
"""Seconds of one attempt, and between two."""

_NOT_STORED = ("queue_full", "too_large")
"""Why the broker has not stored a message."""

_UNCONFIRMED_TTL = 3600.0
"""Seconds for which content is kept whose turn was not found: its message may yet arrive, and wait for a worker."""

_NOT_RELAYED = events_of(TextDelta, ModelCalled, ModelFailed, Answered, HandedBack)
"""Events that callers do not get: a model's text, its cost and the journal stay in the log."""

_WITH_TEXT = _NOT_RELAYED - events_of(TextDelta)
"""The same for a caller that asked for the text."""

ONLY_THE_END = KNOWN_EVENTS - events_of(FinalEvent, LogMessage)
"""Events that a caller without a progress token does not get."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A turn that was submitted; `feed` has its events, `position` is that of its message in the queue's stream.

    The position is 0 when it is not known. `joined`: an earlier call with the same key has made the turn.
    """

    request: TurnRequested
    feed: TurnFeed
    position: int
    joined: bool = False


def make_request(
    key: LogKey, definition: AgentDefinition, tool: ToolDefinition, arguments: JsonObject, call: Call
) -> TurnRequested:
    """The turn of a valid call. With an idempotency key its id follows from key, tool and `Principal.owner`."""
    turn_id, digest = new_turn_id(), None
    if call.key is not None:
        identity = (call.principal.owner, definition.team, definition.agent, tool.name, call.key)
        turn_id = key.turn_id(*identity, call.input_responses, call.request_state)
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
        task=call.task,
        task_hash=key.task(call.task) if call.task is not None else None,
        client=call.client,
        input_responses=call.input_responses,
        request_state=call.request_state,
        digest=digest,
        requested_at=utc_now(),
    )


def not_relayed(*, progress: bool, text: bool = False) -> frozenset[type[TurnEvent]]:
    """The classes of events that a caller does not get, by whether it wants progress, and models' text as progress."""
    if not progress:
        return ONLY_THE_END
    return _WITH_TEXT if text else _NOT_RELAYED


async def submit_turn(bus: Bus, feeds: TurnFeeds, request: TurnRequested, *, text: bool = False) -> Submitted | Refusal:
    """Put the turn into its queue, and offload what is too big for the message. `text`: the caller wants models' text.

    A refused turn is never executed; with an idempotency key it may be in its queue and be executed.
    """
    about = about_queue(request, "send")
    with tracer.start_as_current_span("submit_turn", kind=SpanKind.PRODUCER, attributes=about) as span:
        submitted = await _submit(bus, feeds, request, not_relayed(progress=request.client.progress, text=text))
        if isinstance(submitted, Refusal):
            span.set_attribute("error.type", submitted.code)
            span.set_status(StatusCode.ERROR)
        return submitted


async def _submit(
    bus: Bus, feeds: TurnFeeds, request: TurnRequested, skip: frozenset[type[TurnEvent]]
) -> Submitted | Refusal:
    light: TurnRequested | None = None
    own = secrets.token_hex(8) if request.is_shared else None
    feed = feeds.open(TurnRef.of(request), skip=skip)
    try:
        light = await offload_request(bus, request, own)
        stored = await _put(bus, light)
    except (Unavailable, Rejected) as error:
        if feed.attempt:
            # A worker has claimed it, so it was stored although the confirmation is missing.
            return Submitted(light or request, feed, 0)
        feeds.close(feed)
        if light is None or light.stowed is not None:
            is_sure = light is None or error.code in _NOT_STORED
            bus.spawn(_drop(bus, request) if own is None else _drop_own(bus, request, own, is_sure=is_sure))
        return _refused(bus, request, error)
    except BaseException:
        feeds.close(feed)
        if own is not None and (light is None or light.stowed is not None):
            bus.spawn(_drop_own(bus, request, own, is_sure=light is None))
        elif light is None:
            bus.spawn(_drop(bus, request))
        raise
    return Submitted(light, feed, stored.seq, joined=stored.duplicate and request.is_shared)


async def _drop(bus: Bus, request: TurnRequested) -> None:
    """Remove the offloaded content of a turn that is not executed; what cannot be removed now expires."""
    with suppress(PallasError):
        await retry_while_unavailable(lambda: drop(bus, TurnRef.of(request)), "remove offloaded content")


async def _drop_own(bus: Bus, request: TurnRequested, own: str, *, is_sure: bool) -> None:
    """Remove what the refused call `own` of a shared turn has offloaded, unless the turn may need it.

    Other calls with the same key have objects of their own, so theirs stay. If this call has made the turn, the turn's
    end removes the object. If no turn is found, although nothing says that the message was not stored (`is_sure`), it
    may still arrive: the object then expires.
    """
    ref = TurnRef.of(request)

    async def attempt() -> None:
        found = await find_turn(bus, request)
        if found is None and not is_sure:
            await offload_request(bus, request, own, ttl=_UNCONFIRMED_TTL)
        elif found is None or found.digest != request.digest:
            await drop(bus, ref, request_object(own))

    with suppress(PallasError):
        await retry_while_unavailable(attempt, "remove offloaded content", facts={"turn": ref.turn_id})


async def _put(bus: Bus, request: TurnRequested) -> Stored:
    """Send the turn until the broker confirms it. The message id is always the same, so it is stored once.

    Raises:
        Unavailable: the queue is full (`queue_full`), or nothing was confirmed in time: the turn may be in its queue.
        Rejected: the request is larger than the broker accepts (`too_large`).
    """
    clock = asyncio.get_running_loop().time
    until = clock() + SUBMIT_TIMEOUT

    async def attempt() -> Stored:
        try:
            async with asyncio.timeout_at(min(until, clock() + _TRY)):
                return await submit(bus, request)
        except TimeoutError as error:
            raise Unavailable(f"turn {request.turn_id!r} was not confirmed in time") from error

    facts, deadline = {"turn": request.turn_id}, SUBMIT_TIMEOUT - _PAUSE
    return await retry_while_unavailable(
        attempt, "submit the turn", deadline=deadline, pause=_PAUSE, unless="queue_full", facts=facts
    )


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
        case _ if request.is_shared:
            return not_confirmed(request)
        case _:
            bus.spawn(cancel_turn(bus, TurnRef.of(request), "it could not be stored in its queue", request))
            return Refusal(
                "busy",
                "The platform cannot take turns right now. This one is cancelled; try again shortly.",
                RETRY_AFTER_MS,
                request.turn_id,
                limit="broker",
            )


def nowhere_to_store() -> Refusal:
    """The refusal of a call while the broker can store no turn. Nothing of the call exists."""
    message = "The platform cannot take turns right now: its broker can store nothing. Try again shortly."
    return Refusal("busy", message, _LEADER_RETRY_AFTER_MS, limit="broker")


def not_confirmed(request: TurnRequested) -> Refusal:
    """The refusal of a call with an idempotency key whose turn may be in its queue, and be executed.

    The call can be retried: with its key it gets that turn.
    """
    message = "The platform cannot take turns right now. Try again shortly with the same idempotency key."
    return Refusal("busy", message, RETRY_AFTER_MS, request.turn_id, limit="broker")


_MOST_FAULTS = 5


@dataclass
class ToolSchemas:
    """The input schemas of the tools of one revision of a definition. `owner` is its agent."""

    owner: str
    _compiled: dict[str, Schema | Refusal] = field(default_factory=dict[str, "Schema | Refusal"])
    _compiling: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, tool: ToolDefinition, arguments: Mapping[str, Any]) -> JsonObject | Refusal:
        """Drop optional arguments that are null, and check the rest unless the tool does so itself."""
        required = frozenset(tool.input_schema.get("required", ()))
        given = {name: value for name, value in arguments.items() if value is not None or name in required}
        if tool.checks_arguments:
            return given
        try:
            schema = await self._of(tool)
            if isinstance(schema, Refusal):
                return schema
            faults = tuple((await schema.faults(given))[:_MOST_FAULTS])
        except Unavailable as error:
            return Refusal("busy", error.message, AGENT_RETRY_AFTER_MS, limit="checks")
        if not faults:
            return given
        sentence = f"The arguments of {tool.name!r} do not fit: {'; '.join(faults)}"
        return Refusal("invalid_arguments", sentence, faults=faults)

    async def _of(self, tool: ToolDefinition) -> Schema | Refusal:
        """The input schema of a tool, compiled once, or why none of its calls can be taken."""
        async with self._compiling:
            if tool.name not in self._compiled:
                self._compiled[tool.name] = await self._compile(tool)
            return self._compiled[tool.name]

    async def _compile(self, tool: ToolDefinition) -> Schema | Refusal:
        try:
            return await Schema.compiled(tool.input_schema, self.owner)
        except Rejected as error:
            return unusable(f"tool {tool.name!r}: input_schema{error.message}")


def unusable(reason: str) -> Refusal:
    """The refusal of a call whose agent has a definition that cannot be used."""
    return Refusal("agent_failed", f"The agent's definition cannot be used: {reason}", AGENT_RETRY_AFTER_MS)


def find_tool(definition: AgentDefinition, name: str) -> ToolDefinition:
    """The tool of that name or alias.

    Raises:
        NotFound: the agent has no such tool.
    """
    tool = definition.tool(name)
    if tool is None:
        raise NotFound(f"Unknown tool: {name!r}", code="unknown_tool")
    return tool
