"""Execute one attempt with the agent's runtime, within the agent's time limit."""

import asyncio
import logging

from agent_worker.ports import Failed, HostedAgent, Outcome, Turn
from pallas_bus.turn_writer import TurnWriter
from pallas_contracts.errors import Conflict
from pallas_contracts.turns import TurnRequested

log = logging.getLogger(__name__)


async def run_turn(hosted: HostedAgent, request: TurnRequested, writer: TurnWriter) -> Outcome:
    """Return how the attempt ended.

    Raises:
        Conflict: the attempt has been superseded; it must not conclude the turn.
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
    )
    try:
        async with asyncio.timeout(seconds):
            return await hosted.runtime.run_turn(turn, writer)
    except TimeoutError:
        return Failed("turn_timeout", f"The turn took longer than {seconds:g} s, the limit of {request.agent!r}.")
    except Conflict:
        raise
    except Exception:  # a runtime's bug must end the turn, not the worker
        log.exception("the runtime failed")
        return Failed("internal", "Something in Pallas went wrong; the log has it under the turn's id.")
