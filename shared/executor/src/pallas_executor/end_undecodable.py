"""End a turn whose message cannot be decoded: a dead letter for operators, an outcome for its caller.

Every step can be repeated by another worker if this one dies: the letter is stored once, the outcome is fenced, and the
message leaves its queue last.
"""

from opentelemetry.trace import SpanKind
from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.dead_letters import faults_of, turn_id_of
from pallas_bus.turnlog.queue import Delivery
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter, content_ttl_of
from pallas_contracts.message import utc_now
from pallas_contracts.turns import TURN_ERRORS, ClientContext, TurnRequested
from pallas_executor.agent_runtime import Failed
from pallas_executor.claim_turn import (
    Claimant,
    Conclude,
    NotYet,
    claim_to_end,
)
from pallas_executor.conclude_turn import conclude_turn
from pallas_executor.dead_letters import DeadLetters
from pallas_runtime.telemetry import tracer

_WHY = Failed("undecodable", TURN_ERRORS["undecodable"])


async def end_undecodable(
    bus: Bus, letters: DeadLetters, worker: str, key: str, delivery: Delivery, error: ValidationError
) -> bool:
    """Store a dead letter and end the turn, if its id is known. False: a live worker has claimed the turn.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    team, _, agent = key.partition(".")
    turn_id, started_at = turn_id_of(delivery), utc_now()
    with tracer.start_as_current_span("end_undecodable", kind=SpanKind.CONSUMER):
        await letters.keep(delivery, team, agent, turn_id, "undecodable", faults_of(error))
        if turn_id is None:
            return True
        request = _minimal_request(delivery, team, agent, turn_id)
        verdict = await claim_to_end(Claimant(bus, worker, request, delivery.reply), _WHY)
        if isinstance(verdict, Conclude):
            kept = content_ttl_of(letters.content_seconds)
            # Whether content of the turn was offloaded is not known either.
            ref = TurnRef.of(request)
            writer = TurnWriter(bus, ref, verdict.attempt, verdict.fence, kept, early_content=True)
            await conclude_turn(writer, request, verdict.why, started_at, letters.metrics.turns.ended)
        return not isinstance(verdict, NotYet)


def _minimal_request(delivery: Delivery, team: str, agent: str, turn_id: str) -> TurnRequested:
    """A request with the turn's id and the time at which it was queued, and nothing else."""
    return TurnRequested(
        turn_id=turn_id,
        team=team,
        agent=agent,
        tool="",
        client=ClientContext(protocol_version=""),
        requested_at=delivery.stored_at,
    )
