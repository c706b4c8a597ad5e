"""Execute one attempt with the agent's runtime, within the agent's time limit."""

import asyncio
import logging

from agent_worker.ports import Failed, HostedAgent, Outcome, Turn
from pallas_bus.turn_writer import TurnWriter
from pallas_contracts.errors import Superseded
from pallas_contracts.turns import TURN_ERRORS, TurnRequested

log = logging.getLogger(__name__)

_INTERNAL = TURN_ERRORS["internal"]


async def run_turn(hosted: HostedAgent, request: TurnRequested, writer: TurnWriter) -> Outcome:
    """Return how the attempt ended.

    Raises:
        Superseded: the attempt does not have the turn any more.
        CancelledError: the turn was cancelled, or this worker stops.
    """
    seconds = hosted.definition.limits.turn_timeout
    turn = Turn(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        tool=request.tool,
        arguments=request.arguments,
        attempt=writer.attempt,
        remaining=seconds,
        client=request.client,
        correlation=request.correlation,
        input_responses=request.input_responses,
        request_state=request.request_state,
        model=request.model,
    )
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await hosted.runtime.run_turn(turn, writer)
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
