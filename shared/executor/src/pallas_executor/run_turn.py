"""Execute one attempt with the agent's runtime, within the agent's time limit."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

from opentelemetry.trace import StatusCode
from pydantic_core import from_json, to_json, to_jsonable_python

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import retry_while_unavailable
from pallas_bus.turnlog.content import whole_request
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.errors import NotFound, Rejected, Superseded
from pallas_contracts.turns import TURN_ERRORS, InputRequired, Result, TurnRequested, turn_error
from pallas_contracts.valid import valid_json, valid_text
from pallas_executor.agent_runtime import (
    Completed,
    Failed,
    HostedAgent,
    NeedsInput,
    Outcome,
    Turn,
)
from pallas_executor.journal import Boundary, Journal
from pallas_executor.paced_events import PacedEvents
from pallas_runtime.telemetry import tracer

log = logging.getLogger(__name__)

_INTERNAL = TURN_ERRORS["internal"]


async def run_turn(
    hosted: HostedAgent, request: TurnRequested, writer: TurnWriter, journal: Journal, boundary: Boundary
) -> Outcome:
    """Execute the attempt and return how it ended. The time limit counts from the first attempt's claim.

    Raises:
        Superseded: the attempt does not have the turn any more.
        CancelledError: the turn was cancelled, or this worker stops.
    """
    with tracer.start_as_current_span("run_turn") as span:
        outcome = await _run(hosted, request, writer, journal, boundary)
        if isinstance(outcome, Failed):
            span.set_attribute("error.type", outcome.code)
            span.set_status(StatusCode.ERROR)
        return outcome


async def _run(
    hosted: HostedAgent, request: TurnRequested, writer: TurnWriter, journal: Journal, boundary: Boundary
) -> Outcome:
    seconds = hosted.definition.limits.turn_timeout
    limit = asyncio.timeout(seconds - journal.elapsed)
    ends = asyncio.get_running_loop().time() + seconds - journal.elapsed
    events = PacedEvents(writer)
    try:
        async with limit:
            whole = await _whole(writer.bus, request)
            if isinstance(whole, Failed):
                return whole
            remaining = ends - asyncio.get_running_loop().time()
            turn = _turn(whole, writer.attempt, remaining, journal, boundary)
            return valid_outcome(await hosted.runtime.run_turn(turn, events))
    except TimeoutError:
        if not limit.expired():
            log.exception("the runtime failed")
            return Failed("internal", _INTERNAL)
        return Failed("turn_timeout", f"The turn took longer than {seconds:g} s, the limit of {request.agent!r}.")
    except Superseded:
        raise
    except Exception:  # a runtime's bug must end the turn, not the worker
        log.exception("the runtime failed")
        return Failed("internal", _INTERNAL)
    finally:
        events.end()


def valid_outcome(outcome: Outcome) -> Outcome:
    """The outcome as JSON can hold it. An answer that it cannot hold is `invalid_answer`, and is not made again."""
    try:
        match outcome:
            case Completed(result):
                return Completed(_valid(result, ("content", "structured", "meta")))
            case NeedsInput(ask):
                return NeedsInput(_valid(ask, ("input_requests", "request_state")))
            case Failed():
                # Its data is for protocol errors only, and may be left out.
                return replace(outcome, message=valid_text(outcome.message), data=_valid_or_none(outcome.data))
    except ValueError as error:
        log.warning("the answer is no JSON", extra={"reason": str(error)})
        return Failed("invalid_answer", f"The agent's answer cannot be used: {error}.")


def _valid[Event: Result | InputRequired](event: Event, fields: tuple[str, ...]) -> Event:
    made = dict[str, Any]()
    for name in fields:
        value = getattr(event, name)
        try:
            valid = valid_value(value)
        except ValueError as error:
            raise ValueError(f"{name!r} is no JSON: {error}") from error
        if valid is not value:
            made[name] = tuple(valid) if isinstance(value, tuple) else valid
    return event.model_copy(update=made) if made else event


def _valid_or_none(data: Any) -> Any:
    try:
        return valid_value(data)
    except ValueError:
        return None


def valid_value(value: Any) -> Any:
    """The value with valid texts. Nearly every value is valid already, which is found out the fastest way.

    Raises:
        ValueError: JSON cannot hold it.
    """
    inside = [[[[value]]]]  # readers count the levels of the message around it
    try:
        from_json(to_json(inside, inf_nan_mode="constants"), allow_inf_nan=False)
    except ValueError:
        try:
            valid = valid_json(inside)
        except TypeError:
            valid = valid_json(to_jsonable_python(inside, inf_nan_mode="constants"))
        return valid[0][0][0][0]
    return value


async def _whole(bus: Bus, request: TurnRequested) -> TurnRequested | Failed:
    """The request with its offloaded content; retries while the broker is unavailable."""
    try:
        return await retry_while_unavailable(lambda: whole_request(bus, request), "read the arguments", deadline=None)
    except (NotFound, Rejected) as error:
        log.warning("the arguments cannot be read", extra={"reason": error.message})
        code = turn_error(error.code)
        return Failed(code, f"The turn was not executed. {TURN_ERRORS[code]}")


def _turn(request: TurnRequested, attempt: int, remaining: float, journal: Journal, boundary: Boundary) -> Turn:
    return Turn(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        tool=request.tool,
        arguments=request.arguments,
        attempt=attempt,
        remaining=remaining,
        client=request.client,
        principal=request.principal,
        operator=request.operator,
        depth=request.depth,
        correlation=request.correlation,
        task=request.task,
        input_responses=request.input_responses,
        request_state=request.request_state,
        model=request.model,
        allowance=request.allowance,
        journal=journal,
        boundary=boundary,
    )
