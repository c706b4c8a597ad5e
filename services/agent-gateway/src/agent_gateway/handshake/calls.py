"""Stores which turn a handshake-era request became, so that any gateway can cancel it."""

import asyncio
import logging

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.cancel_turn import cancel_turn
from pallas_contracts.catalog import CALLS, LegacyCall
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import TurnAsked, TurnRequested
from pallas_runtime.telemetry import of_turn, tracer

log = logging.getLogger(__name__)

_CANCEL_TIMEOUT = 2.0
"""Seconds for which the sender of a cancel waits; the cancel continues in the background."""

_OVERTAKEN = 0.2
"""Seconds after which a call that was sent before its cancel is stored."""


async def remember_call(bus: Bus, session: str, request: str, turn: TurnRequested) -> None:
    """Store which turn a handshake-era request became."""
    call = LegacyCall(team=turn.team, agent=turn.agent, turn_id=turn.turn_id, asked=TurnAsked.of(turn))
    await kv.put_nowait(bus, CALLS, call, session=session, request=request)


async def cancel_call(bus: Bus, session: str, request: str) -> None:
    """Cancel the turn of a handshake-era request, if there is one.

    A cancel may overtake its call, so an unknown call is read once more after `_OVERTAKEN` seconds.
    """
    try:
        call = await kv.get(bus, CALLS, session=session, request=request)
        if call is None:
            await asyncio.sleep(_OVERTAKEN)
            call = await kv.get(bus, CALLS, session=session, request=request)
    except PallasError as error:
        log.warning("cannot read the call to cancel", extra={"reason": error.message})
        return
    if call is not None:
        ref = TurnRef(call.team, call.agent, call.turn_id)
        with of_turn(**ref.facts), tracer.start_as_current_span("cancel_call"):
            cancelling = bus.spawn(cancel_turn(bus, ref, "cancelled by the caller", call.asked))
            await asyncio.wait({cancelling}, timeout=_CANCEL_TIMEOUT)
