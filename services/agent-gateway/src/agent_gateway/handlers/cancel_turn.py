"""Cancel a turn for good: the tombstone is in the log before anybody is told that it was cancelled."""

import logging

from pallas_bus import tables
from pallas_bus.connection import Bus
from pallas_bus.turn_writer import Address, request_cancel
from pallas_contracts.catalog import CALLS, LegacyCall
from pallas_contracts.errors import PallasError

log = logging.getLogger(__name__)


async def cancel_turn(bus: Bus, address: Address, reason: str) -> None:
    """Write the turn's tombstone; logs when the broker cannot be reached."""
    try:
        await request_cancel(bus, address, reason)
    except PallasError as error:
        log.warning("cannot cancel", extra={"turn": address.turn_id, "reason": error.message})
    else:
        log.info("cancel requested", extra={"turn": address.turn_id, "why": reason})


async def remember_call(bus: Bus, session: str, request: str, address: Address) -> None:
    """Keep which turn a handshake-era request stands for, so that any replica can cancel it."""
    call = LegacyCall(team=address.team, agent=address.agent, turn_id=address.turn_id)
    await tables.beat(bus, CALLS, call, session=session, request=request)


async def cancel_call(bus: Bus, session: str, request: str) -> None:
    """Cancel the turn of a handshake-era request, if there is one."""
    try:
        call = await tables.get(bus, CALLS, session=session, request=request)
    except PallasError as error:
        log.warning("cannot look up the call to cancel", extra={"reason": error.message})
        return
    if call is not None:
        await cancel_turn(bus, Address(call.team, call.agent, call.turn_id), "cancelled by the caller")
