"""Fetch an answer that was too big for the log, before the caller gets it."""

import logging
from dataclasses import replace

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.content.claim_checks import whole_result
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.model import TurnEnd
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.turns import Result, turn_error

log = logging.getLogger(__name__)


async def whole_answer(bus: Bus, end: TurnEnd) -> TurnEnd:
    """The end of a turn with its whole answer; retries without a deadline while the broker is unavailable.

    When the answer is gone or damaged there is no answer, and the outcome has that as its code.
    """
    if not isinstance(answer := end.answer, Result):
        return end
    outcome = end.outcome
    ref = TurnRef(outcome.team, outcome.agent, outcome.turn_id)
    facts = {"turn": outcome.turn_id}
    try:
        whole = await retry_while_unavailable(
            lambda: whole_result(bus, ref, answer), "read the answer", deadline=None, facts=facts
        )
    except (NotFound, Rejected) as error:
        log.warning("the answer cannot be read", extra={**facts, "reason": error.message})
        return replace(end, outcome=outcome.model_copy(update={"code": turn_error(error.code)}), answer=None)
    return replace(end, answer=whole)
