"""Cancel a turn for good: the tombstone is in the log before anybody is told that it was cancelled."""

import asyncio
import logging

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import PallasError

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for which a cancel is tried: a turn whose caller has gone must not run because the broker was away."""

_RETRY = 0.5


async def cancel_turn(bus: Bus, ref: TurnRef, reason: str) -> None:
    """Write the turn's tombstone, however long the broker is away up to `PATIENCE`; logs when that was not enough."""
    clock = asyncio.get_running_loop().time
    until, told = clock() + PATIENCE, False
    while True:
        try:
            await request_cancel(bus, ref, reason)
        except PallasError as error:
            if not told:
                log.warning("cannot cancel yet", extra={"turn": ref.turn_id, "reason": error.message})
                told = True
            if clock() > until:
                log.error("not cancelled", extra={"turn": ref.turn_id, "why": reason})
                return
            await asyncio.sleep(_RETRY)
        else:
            log.info("cancel requested", extra={"turn": ref.turn_id, "why": reason})
            return
