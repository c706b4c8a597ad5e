"""How long something is tried again, and at what pace."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from pallas_bus.transport.retry import is_cancelled
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_WELL_SECONDS = 5.0
"""An attempt that lasted as long had reached the other end, so its failure is a new one."""


class Tries:
    """Attempts at one thing."""

    def __init__(self) -> None:
        self._failures = 0
        self._since = self._attempt = time.monotonic()

    async def again(self, within: float, pause: float | None = None) -> bool:
        """Wait before the next attempt. False: it has failed for longer than `within` seconds."""
        now = time.monotonic()
        if now - self._attempt > _WELL_SECONDS:
            self._failures, self._since = 0, now
        pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)] if pause is None else pause
        if now + pause - self._since > within:
            return False
        self._failures += 1
        await asyncio.sleep(pause)
        self._attempt = time.monotonic()
        return True


async def with_postgres[T](attempt: Callable[[], Awaitable[T]], what: str) -> T:
    """What `attempt()` returns. It is made again for as long as Postgres cannot be used."""
    failures = 0
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            if is_cancelled():
                raise asyncio.CancelledError from error
            if not failures:
                log.warning("Postgres cannot be used; trying again", extra={"work": what, "reason": error.code})
        await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
        failures += 1
