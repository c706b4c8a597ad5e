"""Stores dead letters: messages that this worker could not handle. Logs and counts them."""

import logging
from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.dead_letters import dead_letter, keep_letter
from pallas_bus.turnlog.queue import Delivery
from pallas_contracts.turns import TurnError
from pallas_executor.metrics import Metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeadLetters:
    """Stores letters; their originals expire after `content_seconds`."""

    bus: Bus
    content_seconds: float
    metrics: Metrics

    async def keep(
        self,
        delivery: Delivery,
        team: str,
        agent: str,
        turn_id: str | None,
        code: TurnError,
        reason: str,
        *,
        attempts: int = 0,
    ) -> None:
        """Store a delivered message as a dead letter; repeating this stores no second one. `reason` holds no content.

        Raises:
            Unavailable: the broker does not answer.
        """
        letter = dead_letter(delivery, turn_id, team=team, agent=agent, code=code, reason=reason, attempts=attempts)
        stored = await keep_letter(self.bus, letter, delivery, content_seconds=self.content_seconds)
        if stored is not None:
            self.metrics.letter_kept(team, agent, code)
            facts = {"letter": stored.letter, "code": code, "reason": stored.reason, "attempts": attempts}
            log.error("dead letter", extra=facts)
