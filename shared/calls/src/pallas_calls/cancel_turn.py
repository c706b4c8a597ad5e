"""Cancel a turn for good: the cancel is in the log before anybody is notified of it."""

import logging
from collections.abc import Awaitable, Callable

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.places import in_each_shard
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import TurnAsked, TurnRequested

log = logging.getLogger(__name__)


async def cancel_turn(bus: Bus, ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None = None) -> None:
    """Write the cancel, retrying while the broker is unavailable; log an error after the retry's deadline.

    `asked` is the request, or what is known of it.
    """
    await _cancel(ref, reason, lambda: request_cancel(bus, ref, reason, asked))


async def cancel_by_id(bus: Bus, ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None = None) -> None:
    """The same for a turn of which it is not known in which shard it is, or whether it was made yet.

    It is cancelled in each shard in which it may be: where it is not, nobody can make it any more.
    """

    async def cancel() -> bool:
        return any([await request_cancel(bus, each, reason, asked) for each in await in_each_shard(bus, ref)])

    await _cancel(ref, reason, cancel)


async def _cancel(ref: TurnRef, reason: str, cancel: Callable[[], Awaitable[bool]]) -> None:
    facts = {"turn": ref.turn_id}
    try:
        await retry_while_unavailable(cancel, "cancel the turn", facts=facts)
    except PallasError as error:
        log.error("not cancelled", extra={**facts, "why": reason, "reason": error.message})
    else:
        log.info("cancel requested", extra={**facts, "why": reason})
