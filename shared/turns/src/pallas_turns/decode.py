"""Decode what was delivered, in front of `take_turn`. What cannot be decoded becomes a dead letter, and its turn ends.

Every step can be repeated by another worker if this one dies: the letter is stored once, the outcome is fenced, and the
message leaves its queue last.
"""

from dataclasses import dataclass

from opentelemetry.trace import SpanKind
from pydantic import ValidationError

from pallas_bus.headers import continued
from pallas_contracts.message import utc_now
from pallas_contracts.turns import TURN_ERRORS, ClientContext, TurnRequested
from pallas_runtime.logs import log_context
from pallas_runtime.telemetry import tracer
from pallas_turns.attempts import Claimant, Conclude, NotYet, claim_to_end
from pallas_turns.claims import TurnRef
from pallas_turns.conclude import conclude_turn
from pallas_turns.dead_letters import faults_of, turn_id_of
from pallas_turns.execute import TakeTurn
from pallas_turns.queue import Delivery
from pallas_turns.runtime import Failed
from pallas_turns.settle import End
from pallas_turns.write import TurnWriter

_WHY = Failed("undecodable", TURN_ERRORS["undecodable"])


@dataclass(frozen=True)
class DecodeTurn:
    """Decodes deliveries for `turns`."""

    turns: TakeTurn

    async def take(self, key: str, delivery: Delivery) -> None:
        """Execute what was delivered for the agent `key`, or end it, and settle the delivery."""
        with continued(delivery.headers):
            try:
                request = TurnRequested.model_validate_json(delivery.data)
            except ValidationError as error:
                team, _, agent = key.partition(".")
                with log_context(team=team, agent=agent, turn=turn_id_of(delivery)):
                    await self.turns.running.settle(delivery, self._end_undecodable(key, delivery, faults_of(error)))
            else:
                await self.turns.take_turn(key, request, delivery)

    async def _end_undecodable(self, key: str, delivery: Delivery, faults: str) -> End:
        """Store a dead letter and end the turn, if its id is known; later if a live worker has claimed it."""
        turns, keep = self.turns, self.turns.keeping(self.turns.host(key))
        team, _, agent = key.partition(".")
        turn_id, started_at = turn_id_of(delivery), utc_now()
        with tracer.start_as_current_span("end_undecodable", kind=SpanKind.CONSUMER):
            await turns.letters.keep(delivery, team, agent, turn_id, "undecodable", faults, keep)
            if turn_id is None:
                return End.DEAD
            request = _minimal_request(delivery, team, agent, turn_id)
            verdict = await claim_to_end(Claimant(turns.bus, turns.worker, request, delivery.reply), _WHY)
            if isinstance(verdict, Conclude):
                # Whether content of the turn was offloaded is not known either.
                ref = TurnRef.of(request)
                writer = TurnWriter(turns.bus, ref, verdict.attempt, verdict.fence, keep, early_content=True)
                await conclude_turn(writer, request, verdict.why, started_at, turns.metrics.turns.ended)
            return End.LATER if isinstance(verdict, NotYet) else End.DEAD


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
