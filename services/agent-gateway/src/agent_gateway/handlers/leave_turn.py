"""Let a turn go on for a while after its caller has closed the stream, and cancel it when nobody has come back.

That is what an idempotency key is for. A gateway that ends meanwhile cancels nothing: the turn runs to its end.
"""

import asyncio
import logging
from collections.abc import Callable

from agent_gateway.handlers.patience import patiently
from pallas_bus.connection import Bus
from pallas_bus.turn_callers import cancel_if_alone, say_left
from pallas_bus.turn_claims import Address
from pallas_bus.turn_withdraw import withdraw_turn
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
    address = Address.of(request)
    try:
        left = await patiently(lambda: say_left(bus, address), "say that a caller has left", address)
        if await _cancel(bus, address, left, grace):
            log.info("cancelled: left alone", extra={"turn": address.turn_id, "grace": grace})
            await withdraw_turn(bus, request, position, ended)
    except PallasError as error:
        log.error("not cancelled: left alone", extra={"turn": address.turn_id, "reason": error.message})


async def _cancel(bus: Bus, address: Address, left: int, grace: float) -> bool:
    """Cancel the turn if it is alone. While the broker is away nobody can come back, so that time does not count."""
    reason = f"its callers had left, and none came back within {grace:g} s"
    while True:
        breaks = bus.breaks
        await asyncio.sleep(max(grace, ANSWERED_WITHIN))
        if bus.breaks != breaks or not bus.connected:
            continue
        try:
            return await cancel_if_alone(bus, address, left, reason)
        except Unavailable as error:
            log.warning("cannot cancel yet", extra={"turn": address.turn_id, "reason": error.message})
