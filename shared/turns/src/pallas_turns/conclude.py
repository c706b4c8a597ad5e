"""End a turn: publish the answer as its last event, then its one outcome.

Runtimes may answer what JSON cannot hold: texts are mended, and what cannot be mended is no answer.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json, to_jsonable_python

from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.turns import (
    TURN_ERRORS,
    Fault,
    InputRequired,
    Result,
    TurnError,
    TurnOutcome,
    TurnRequested,
    TurnStatus,
)
from pallas_contracts.valid import valid_json, valid_text
from pallas_runtime.telemetry import tracer
from pallas_turns.runtime import Completed, Failed, NeedsInput, Outcome
from pallas_turns.write import TurnWriter

log = logging.getLogger(__name__)


async def conclude_turn(
    writer: TurnWriter,
    request: TurnRequested,
    outcome: Outcome | None,
    started_at: datetime,
    ended: Callable[[TurnOutcome], None],
) -> TurnOutcome:
    """Write the end of the turn and return what was written; None means it was cancelled.

    `ended(outcome)` is called if the turn had no outcome before.

    Retries while the broker is unavailable, without a deadline: the turn was executed and must not be executed again.

    Raises:
        Superseded: this attempt does not have the turn any more.
        Rejected: the broker refuses the outcome for good.
    """
    with tracer.start_as_current_span("conclude_turn") as span:
        written = await _conclude(writer, request, outcome, started_at, ended)
        span.set_attribute("pallas.outcome", written.code or written.status)
        return written


async def _conclude(
    writer: TurnWriter,
    request: TurnRequested,
    outcome: Outcome | None,
    started_at: datetime,
    ended: Callable[[TurnOutcome], None],
) -> TurnOutcome:
    outcome = await _offloaded(writer, outcome)
    while True:
        _emit_answer(writer, outcome)
        written = _outcome(writer, request, outcome, started_at)
        try:
            first = await retry_while_unavailable(partial(writer.conclude, written), "conclude", deadline=None)
        except Rejected as error:
            log.error("the answer cannot be stored", extra={"reason": error.message})
            if outcome is None or isinstance(outcome, Failed):
                raise
            outcome = _not_stored(error)
        else:
            log.info("concluded", extra=_facts(written, first))
            if first:
                ended(written)
            return written


async def _offloaded(writer: TurnWriter, outcome: Outcome | None) -> Outcome | None:
    """The outcome as it is published: an answer that is too large for a message is offloaded first."""
    if not isinstance(outcome, Completed):
        return outcome
    try:
        offload = partial(writer.offload, outcome.result)
        return Completed(await retry_while_unavailable(offload, "offload the answer", deadline=None))
    except Rejected as error:
        log.error("the answer cannot be stored", extra={"reason": error.message})
        return _not_stored(error)
    except ValueError:  # it cannot be encoded; what has been executed must not be executed again
        log.exception("the answer cannot be written")
        return Failed("invalid_answer", TURN_ERRORS["invalid_answer"])


def _not_stored(error: Rejected) -> Failed:
    code: TurnError = "result_too_large" if error.code == "too_large" else "internal"
    return Failed(code, TURN_ERRORS[code])


def kept_request(request: TurnRequested, definition: AgentDefinition) -> TurnRequested:
    """The request as it is kept after its turn's end: without the caller's ids of its conversation and task."""
    tool = definition.tool(request.tool)
    name = tool.correlation if tool is not None else None
    arguments = {key: value for key, value in request.arguments.items() if key != name}
    return request.model_copy(update={"arguments": arguments, "correlation": None, "task": None})


def _outcome(writer: TurnWriter, request: TurnRequested, outcome: Outcome | None, started_at: datetime) -> TurnOutcome:
    status, code, retryable = _summary(outcome)
    return TurnOutcome(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        attempt=writer.attempt,
        status=status,
        code=code,
        retryable=retryable,
        events=0 if outcome is None else writer.last_event,
        requested_at=request.requested_at,
        started_at=started_at,
        ended_at=utc_now(),
    )


def _facts(written: TurnOutcome, first: bool) -> dict[str, object]:
    """The fields of the log line of an ended turn; times in seconds."""
    began = written.started_at or written.requested_at
    return {
        "status": written.status,
        "code": written.code,
        "attempt": written.attempt,
        "first": first,
        "queued": round((began - written.requested_at).total_seconds(), 4),
        "seconds": round((written.ended_at - began).total_seconds(), 4),
    }


def _summary(outcome: Outcome | None) -> tuple[TurnStatus, TurnError | None, bool]:
    match outcome:
        case None:
            return "cancelled", "cancelled", False
        case Completed():
            return "completed", None, False
        case NeedsInput():
            return "input_required", None, False
        case Failed(code, _, retryable):
            return "failed", code, retryable


def _emit_answer(writer: TurnWriter, outcome: Outcome | None) -> None:
    match outcome:
        case Completed(result):
            writer.emit(result)
        case NeedsInput(ask):
            writer.emit(ask)
        case Failed():
            writer.emit(Fault(message=outcome.message, protocol_code=outcome.protocol_code, data=outcome.data))
        case None:
            pass


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
    if _is_valid([[[[getattr(event, name) for name in fields]]]]):
        return event
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
    if not _is_valid(inside):
        try:
            valid = valid_json(inside)
        except TypeError:
            valid = valid_json(to_jsonable_python(inside, inf_nan_mode="constants"))
        return valid[0][0][0][0]
    return value


def _is_valid(value: Any) -> bool:
    try:
        from_json(to_json(value, inf_nan_mode="constants"), allow_inf_nan=False)
    except ValueError:
        return False
    return True
