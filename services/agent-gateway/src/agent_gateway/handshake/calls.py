"""Which turn a handshake-era request became, kept so that any replica can cancel it."""

import asyncio
import logging

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.cancel_turn import cancel_turn
from pallas_contracts.catalog import CALLS, LegacyCall
from pallas_contracts.errors import PallasError
from pallas_runtime.telemetry import of_turn, tracer

log = logging.getLogger(__name__)

_NOTIFIER_WAITS = 2.0


_OVERTAKEN = 0.2
"""Seconds after which a call that was sent before its cancel is known."""


async def remember_call(bus: Bus, session: str, request: str, ref: TurnRef) -> None:
    """Keep which turn a handshake-era request stands for, so that any replica can cancel it."""
    call = LegacyCall(team=ref.team, agent=ref.agent, turn_id=ref.turn_id)
    await kv.beat(bus, CALLS, call, session=session, request=request)


async def cancel_call(bus: Bus, session: str, request: str) -> None:
    """Cancel the turn of a handshake-era request, if there is one. Goes on behind whoever waits for it too long.

    A cancel may overtake its call: when nothing is known of that, it is looked for once more.
    """
    try:
        call = await kv.get(bus, CALLS, session=session, request=request)
        if call is None:
            await asyncio.sleep(_OVERTAKEN)
            call = await kv.get(bus, CALLS, session=session, request=request)
    except PallasError as error:
        log.warning("cannot look up the call to cancel", extra={"reason": error.message})
        return
    if call is not None:
        ref = TurnRef(call.team, call.agent, call.turn_id)
        with of_turn(**ref.facts), tracer.start_as_current_span("cancel_call"):
            cancelling = bus.spawn(cancel_turn(bus, ref, "cancelled by the caller"))
            await asyncio.wait({cancelling}, timeout=_NOTIFIER_WAITS)
