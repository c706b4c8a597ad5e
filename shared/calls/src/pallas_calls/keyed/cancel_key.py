"""Cancel the turn of an idempotency key at once, whoever follows it and whoever has left it.

The cancel goes by the turn's id, which follows from key, caller and tool. So it may come from any gateway, and before
the call itself: a turn that is made later under this key is cancelled from the beginning.
"""

import asyncio
import logging
from collections.abc import Callable

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.lookup import find_in_log, find_waiting
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_calls.keyed.join_turn import FIND_TIMEOUT, answer_found
from pallas_calls.model import Refusal
from pallas_calls.submit_turn import Submitted, not_confirmed
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import TurnAsked, TurnOutcome, TurnRequested

log = logging.getLogger(__name__)

_REASON = "cancelled by the caller"


async def cancel_key(
    bus: Bus, feeds: TurnFeeds, request: TurnRequested, ended: Callable[[TurnOutcome], None]
) -> Submitted | Refusal:
    """Cancel the turn that `request` would make; its arguments do not matter. A turn that is over is followed instead.

    `ended(outcome)` is called when the turn ends here, because no worker has had it.
    """
    try:
        async with asyncio.timeout(FIND_TIMEOUT):
            found = await find_in_log(bus, TurnRef.of(request))
            if found is not None and found.ended:
                return await answer_found(feeds, request.model_copy(update={"digest": found.digest}), found)
            # What the order says besides is its own; the turn's request may say something else.
            asked = TurnAsked(tool=request.tool, principal=request.principal)
            await request_cancel(bus, TurnRef.of(request), _REASON, asked)
    except (TimeoutError, Unavailable) as error:
        log.warning("cannot cancel the turn in time", extra={"turn": request.turn_id, "reason": str(error)})
        return not_confirmed(request)
    log.info("cancel requested", extra={"turn": request.turn_id, "why": _REASON})
    bus.spawn(_withdraw(bus, request, ended))
    return Refusal("cancelled", "The turn with this idempotency key is cancelled.", turn_id=request.turn_id)


async def _withdraw(bus: Bus, request: TurnRequested, ended: Callable[[TurnOutcome], None]) -> None:
    try:
        waiting = await find_waiting(bus, TurnRef.of(request), request.principal)
    except PallasError as error:
        log.warning("cannot withdraw a turn", extra={"turn": request.turn_id, "reason": error.message})
    else:
        if waiting is not None:
            await withdraw_turn(bus, waiting.request, waiting.position, ended)
