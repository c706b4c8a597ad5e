"""Read an answer that was too big for the log where it is stowed, before its caller gets it."""

import asyncio
import logging
from dataclasses import replace

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.content.claim_checks import whole_result
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.model import TurnEnd
from pallas_contracts.errors import NotFound, Rejected, Unavailable
from pallas_contracts.turns import Result

log = logging.getLogger(__name__)

_RETRY = 0.5


async def whole_answer(bus: Bus, end: TurnEnd) -> TurnEnd:
    """The end of a turn with everything its answer says; waits for a broker that is away.

    When the answer is gone or damaged there is no answer, and the outcome has that as its code.
    """
    if not isinstance(end.said, Result):
        return end
    outcome = end.outcome
    ref = TurnRef(outcome.team, outcome.agent, outcome.turn_id)
    while True:
        try:
            return replace(end, said=await whole_result(bus, ref, end.said))
        except (NotFound, Rejected) as error:
            log.warning("the answer cannot be read", extra={"turn": outcome.turn_id, "reason": error.message})
            return replace(end, outcome=outcome.model_copy(update={"code": error.code}), said=None)
        except Unavailable as error:
            log.warning("the answer cannot be read yet", extra={"turn": outcome.turn_id, "reason": error.message})
            await asyncio.sleep(_RETRY)
