"""Stores dead letters: messages that this worker could not handle. Logs and counts them."""

import logging
from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.dead_letters import dead_letter, keep_letter
from pallas_bus.turnlog.queue import Delivery
from pallas_bus.turnlog.writer import Keeping
from pallas_contracts.turns import TurnError
from pallas_executor.metrics import Metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeadLetters:
    """Stores letters."""

    bus: Bus
    metrics: Metrics

    async def keep(
        self,
        delivery: Delivery,
        team: str,
        agent: str,
        turn_id: str | None,
        code: TurnError,
        reason: str,
        keep: Keeping,
        *,
        attempts: int = 0,
    ) -> None:
        """Store a delivered message as a dead letter; repeating this stores no second one. `reason` holds no content.

        `keep` says how long its original is kept: as content of a turn that has failed.

        Raises:
            Unavailable: the broker does not answer.
        """
        letter = dead_letter(delivery, turn_id, team=team, agent=agent, code=code, reason=reason, attempts=attempts)
        stored = await keep_letter(self.bus, letter, delivery, seconds=keep("failed"))
        if stored is not None:
            self.metrics.letter_kept(team, agent, code)
            facts = {"letter": stored.letter, "code": code, "reason": stored.reason, "attempts": attempts}
            log.error("dead letter", extra=facts)
