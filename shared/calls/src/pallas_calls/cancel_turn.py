"""Cancel a turn for good: the cancel is in the log before anybody is notified of it."""

import logging

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import retry_while_unavailable
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import TurnAsked, TurnRequested

log = logging.getLogger(__name__)


async def cancel_turn(bus: Bus, ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None = None) -> None:
    """Write the cancel, retrying while the broker is unavailable; log an error after the retry's deadline.

    `asked` is the request, or what is known of it. A turn that was not made yet cannot be executed any more.
    """
    facts = {"turn": ref.turn_id}
    try:
        await retry_while_unavailable(lambda: request_cancel(bus, ref, reason, asked), "cancel the turn", facts=facts)
    except PallasError as error:
        log.error("not cancelled", extra={**facts, "why": reason, "reason": error.message})
    else:
        log.info("cancel requested", extra={**facts, "why": reason})
