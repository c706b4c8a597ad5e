"""Let a turn go on for a while after its caller has closed the stream, and cancel it when nobody has come back.

That is what an idempotency key is for. A gateway that ends meanwhile cancels nothing: the turn runs to its end.
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
"""Seconds that those who follow the turn through other gateways have to say so, however short the grace time is."""


async def leave_turn(
    bus: Bus, request: TurnRequested, position: int, grace: float, ended: Callable[[TurnOutcome], None]
) -> None:
    """Say that a caller has left, wait for `grace` seconds, and cancel the turn if nobody follows it then.

    `position` is the turn's place in the queue's stream, 0 when it is not known. `ended(outcome)` is told of its end
    when that is here.
    """
    ref = TurnRef.of(request)
    try:
        left = await retry_while_unavailable(
            lambda: publish_left(bus, ref), "say that a caller has left", facts={"turn": ref.turn_id}
        )
        if await _cancel(bus, ref, left, grace):
            log.info("cancelled: left alone", extra={"turn": ref.turn_id, "grace": grace})
            await withdraw_turn(bus, request, position, ended)
    except PallasError as error:
        log.error("not cancelled: left alone", extra={"turn": ref.turn_id, "reason": error.message})


async def _cancel(bus: Bus, ref: TurnRef, left: int, grace: float) -> bool:
    """Cancel the turn if it is alone. While the broker is away nobody can come back, so that time does not count."""
    reason = f"all callers left and none came back within {grace:g} s"
    while True:
        breaks = bus.breaks
        await asyncio.sleep(max(grace, ANSWERED_WITHIN))
        if bus.breaks != breaks or not bus.connected:
            continue
        try:
            return await cancel_if_alone(bus, ref, left, reason)
        except Unavailable as error:
            log.warning("cannot cancel yet", extra={"turn": ref.turn_id, "reason": error.message})
