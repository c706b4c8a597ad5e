"""Cancel a turn for good: the tombstone is in the log before anybody is told that it was cancelled."""

import asyncio
import logging

from pallas_bus import tables
from pallas_bus.connection import Bus
from pallas_bus.turn_claims import Address, request_cancel
from pallas_contracts.catalog import CALLS, LegacyCall
from pallas_contracts.errors import PallasError
from pallas_runtime.telemetry import of_turn, tracer

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for which a cancel is tried: a turn whose caller has gone must not run because the broker was away."""

_RETRY = 0.5
_NOTIFIER_WAITS = 2.0
_OVERTAKEN = 0.2
"""Seconds after which a call that was sent before its cancel is known."""


async def cancel_turn(bus: Bus, address: Address, reason: str) -> None:
    """Write the turn's tombstone, however long the broker is away up to `PATIENCE`; logs when that was not enough."""
    clock = asyncio.get_running_loop().time
    until, told = clock() + PATIENCE, False
    while True:
        try:
            await request_cancel(bus, address, reason)
        except PallasError as error:
            if not told:
                log.warning("cannot cancel yet", extra={"turn": address.turn_id, "reason": error.message})
                told = True
            if clock() > until:
                log.error("not cancelled", extra={"turn": address.turn_id, "why": reason})
                return
            await asyncio.sleep(_RETRY)
        else:
            log.info("cancel requested", extra={"turn": address.turn_id, "why": reason})
            return


async def remember_call(bus: Bus, session: str, request: str, address: Address) -> None:
    """Keep which turn a handshake-era request stands for, so that any replica can cancel it."""
    call = LegacyCall(team=address.team, agent=address.agent, turn_id=address.turn_id)
    await tables.beat(bus, CALLS, call, session=session, request=request)


async def cancel_call(bus: Bus, session: str, request: str) -> None:
    """Cancel the turn of a handshake-era request, if there is one. Goes on behind whoever waits for it too long.

    A cancel may overtake its call: when nothing is known of that, it is looked for once more.
    """
    try:
        call = await tables.get(bus, CALLS, session=session, request=request)
        if call is None:
            await asyncio.sleep(_OVERTAKEN)
            call = await tables.get(bus, CALLS, session=session, request=request)
    except PallasError as error:
        log.warning("cannot look up the call to cancel", extra={"reason": error.message})
        return
    if call is not None:
        address = Address(call.team, call.agent, call.turn_id)
        with of_turn(**address.facts), tracer.start_as_current_span("cancel_call"):
            cancelling = bus.spawn(cancel_turn(bus, address, "cancelled by the caller"))
            await asyncio.wait({cancelling}, timeout=_NOTIFIER_WAITS)
