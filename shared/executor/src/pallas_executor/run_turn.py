"""Execute one attempt with the agent's runtime, within the agent's time limit."""

import asyncio
import logging

from opentelemetry.trace import StatusCode

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import retry_while_unavailable
from pallas_bus.turnlog.content import whole_request
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.errors import NotFound, Rejected, Superseded
from pallas_contracts.turns import TURN_ERRORS, TurnRequested, turn_error
from pallas_executor.agent_runtime import Failed, HostedAgent, Outcome, Turn
from pallas_executor.journal import Boundary, Journal
from pallas_executor.paced_events import PacedEvents
from pallas_executor.valid_outcome import valid_outcome
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
