"""Let a turn with an idempotency key run on after its caller has left, and cancel it when no caller comes back.

A gateway that ends meanwhile cancels nothing: the turn runs to its end.
"""

import asyncio
import logging
from collections.abc import Callable

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.followers import cancel_if_alone, publish_left
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import TurnOutcome, TurnRequested

log = logging.getLogger(__name__)

ANSWERED_WITHIN = 0.5
"""Seconds that other gateways have to publish that they follow the turn, however short the grace time is."""


async def leave_turn(
    bus: Bus, request: TurnRequested, position: int, grace: float, ended: Callable[[TurnOutcome], None]
) -> None:
    """Publish that a caller has left, wait for `grace` seconds, and cancel the turn if nobody follows it then.

    `position` is the turn's position in the queue's stream, 0 when it is not known. `ended(outcome)` is called when the
    turn ends here.
    """
    facts = {"turn": request.turn_id}

    async def cancel_after_grace() -> bool:
        breaks = bus.breaks
        await asyncio.sleep(max(grace, ANSWERED_WITHIN))
        if bus.breaks != breaks or not bus.connected:
            raise Unavailable("the grace time starts again: nobody could come back while the broker was away")
        return await cancel_if_alone(bus, request, left, f"all callers left and none came back within {grace:g} s")

    try:
        ref = TurnRef.of(request)
        left = await retry_while_unavailable(lambda: publish_left(bus, ref), "publish that a caller left", facts=facts)
        if await retry_while_unavailable(cancel_after_grace, "cancel the turn", deadline=None, pause=0.0, facts=facts):
            log.info("cancelled: all callers left", extra={**facts, "grace": grace})
            await withdraw_turn(bus, request, position, ended)
    except PallasError as error:
        log.error("all callers left, but the turn could not be cancelled", extra={**facts, "reason": error.message})
