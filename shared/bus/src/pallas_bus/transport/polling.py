"""Looks: what may have been missed is asked for every few seconds, although nothing seems to be wrong.

Within a cluster, a message that is published again travels over a route at most once. When a route breaks it is lost,
while the connection of whoever listens stays up: neither a reconnect nor a gap tells of it.

Every loop of this package that repairs something, and all that is done after a reconnect, runs by `poll_now`. None of
it ends by an error: it is tried again, after longer and longer pauses when the error is a bug. Ending the process would
be worse, because one entry that nobody can handle would end every replica, again and again. A loop of a service, on
which others rely, is vital to its process instead (`Process.vital`).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pallas_contracts.errors import Unavailable

if TYPE_CHECKING:
    from pallas_bus.transport.connection import Bus

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""A caller whose turn's end was lost on a route waits at most about that much longer."""
_RETRY = 0.5
_LONGEST_RETRY = 30.0

type Poll = Callable[[], Awaitable[None]]


async def poll_now(look: Poll) -> None:
    """Look until that works: the broker may be away, or one of its replicas."""
    told, pause = False, _RETRY
    while True:
        try:
            return await look()
        except Exception as error:
            if _is_cancelled():
                raise  # an error that came up while the look was cancelled stands in the place of that
            if isinstance(error, Unavailable):
                if not told:
                    told = True
                    log.log(_level(error), "cannot look for what was missed yet", extra={"reason": error.message})
                await asyncio.sleep(_RETRY)
            else:
                log.exception("looking for what was missed failed")
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_RETRY)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _level(error: Unavailable) -> int:
    """A stream that is not there yet is what every start of a platform begins with."""
    return logging.DEBUG if error.code == "no_stream" else logging.WARNING


async def keep_polling(look: Poll, every: float = POLL_SECONDS) -> None:
    """Look every so many seconds, for ever."""
    while True:
        await asyncio.sleep(every)
        await poll_now(look)


@asynccontextmanager
async def polling(bus: "Bus", look: Poll, every: float = POLL_SECONDS) -> AsyncGenerator[None]:
    """Keep looking inside the block."""
    task = bus.spawn(keep_polling(look, every))
    try:
        yield
    finally:
        task.cancel()
