"""Cancel the turn of an idempotency key at once, whoever follows it and whoever has left it.

The cancel goes by the turn's id, which follows from key, caller and tool. So it may come from any gateway, and before
the call itself: a turn that is made later under this key is cancelled from the beginning.
"""

import asyncio
import logging

from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.lookup import find_in_log, find_waiting
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.keyed.join_turn import FIND_TIMEOUT, answer_found, explain_cancel
from pallas_calls.model import Refusal, TurnEnd
from pallas_calls.observer import Observer
from pallas_calls.service import Calls
from pallas_calls.submit_turn import not_confirmed
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import TurnAsked, TurnRequested

log = logging.getLogger(__name__)

_REASON = "cancelled by the caller"


async def cancel_key(calls: Calls, request: TurnRequested) -> TurnEnd | Refusal:
    """Cancel the turn that `request` would make, whoever follows it. Returns its end if it was over before.

    The arguments of the request do not matter. The key is used up: whatever is called with it later is cancelled.
    """
    bus, over = calls.bus, None
    try:
        async with asyncio.timeout(FIND_TIMEOUT):
            found = await find_in_log(bus, TurnRef.of(request))
            if found is not None and found.ended:
                over = await answer_found(calls.feeds, request.model_copy(update={"digest": found.digest}), found)
            else:
                # What the order says besides is its own; the turn's request may say something else.
                asked = TurnAsked(tool=request.tool, principal=request.principal)
                await request_cancel(bus, TurnRef.of(request), _REASON, asked)
    except (TimeoutError, Unavailable) as error:
        log.warning("cannot cancel the turn in time", extra={"turn": request.turn_id, "reason": str(error)})
        return not_confirmed(request)
    if isinstance(over, Refusal):
        return over
    if over is not None:
        end = await calls.relay(TurnRef.of(request), over.feed, None, Observer())
        return await explain_cancel(bus, TurnRef.of(request), end)
    log.info("cancel requested", extra={"turn": request.turn_id, "why": _REASON})
    bus.spawn(_withdraw(calls, request))
    return Refusal("cancelled", "The turn with this idempotency key is cancelled.", turn_id=request.turn_id)


async def _withdraw(calls: Calls, request: TurnRequested) -> None:
    try:
        waiting = await find_waiting(calls.bus, TurnRef.of(request), request.principal)
    except PallasError as error:
        log.warning("cannot withdraw a turn", extra={"turn": request.turn_id, "reason": error.message})
    else:
        if waiting is not None:
            await calls.withdraw(waiting.request, waiting.position)
