"""Polling: every few seconds, a subscriber reads the messages that it may have missed.

Between the servers of a cluster, a republished message is delivered at most once. When a route breaks, the message is
lost while the subscriber stays connected, so neither a reconnect nor a gap shows the loss.

Repairs and reconnect handlers of this package run through `poll_now`, which never raises. After an unexpected error it
tries again with growing pauses: if it ended the process instead, one entry that cannot be handled would end every
replica, again and again. A loop of a service that others rely on uses `Process.vital` instead.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pallas_bus.transport.retry import is_cancelled, retry_while_unavailable

if TYPE_CHECKING:
    from pallas_bus.transport.connection import Bus

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""Seconds between two polls: when the notification of a turn's end is lost, its caller waits that much longer."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0

type Poll = Callable[[], Awaitable[None]]


async def poll_now(poll: Poll) -> None:
    """Poll once; retry until that succeeds."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await retry_while_unavailable(poll, "poll for missed messages", deadline=None)
        except Exception:
            if is_cancelled():
                raise
            log.exception("polling for missed messages failed")
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def keep_polling(poll: Poll, every: float = POLL_SECONDS) -> None:
    """Poll every `every` seconds, for ever."""
    while True:
        await asyncio.sleep(every)
        await poll_now(poll)


@asynccontextmanager
async def polling(bus: "Bus", poll: Poll, every: float = POLL_SECONDS) -> AsyncGenerator[None]:
    """Keep polling inside the block."""
    task = bus.spawn(keep_polling(poll, every))
    try:
        yield
    finally:
        task.cancel()
