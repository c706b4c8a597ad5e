"""Do something in the background although the broker may be away for a while."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for which it is tried."""

_RETRY = 0.5


async def retry_while_unavailable[T](attempt: Callable[[], Awaitable[T]], what: str, address: TurnRef) -> T:
    """Return what `attempt()` does, however often it takes; `what` is for the log.

    Raises:
        Unavailable: the broker was away for longer than `PATIENCE`.
    """
    clock = asyncio.get_running_loop().time
    until, told = clock() + PATIENCE, False
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            if clock() > until:
                raise
            if not told:
                told = True
                log.warning(f"cannot {what} yet", extra={"turn": address.turn_id, "reason": error.message})
        await asyncio.sleep(_RETRY)
