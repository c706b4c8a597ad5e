"""Looks: what may have been missed is asked for every few seconds, although nothing seems to be wrong.

Within a cluster, a message that is published again travels over a route at most once. When a route breaks it is lost,
while the connection of whoever listens stays up: neither a reconnect nor a gap tells of it.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from pallas_bus.connection import Bus
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""A caller whose turn's end was lost on a route waits at most about that much longer."""
_RETRY = 0.5

type Look = Callable[[], Awaitable[None]]


async def look_now(look: Look) -> None:
    """Look until that works: the broker may be away, or one of its replicas."""
    told = False
    while True:
        try:
            return await look()
        except Unavailable as error:
            if not told:
                told = True
                log.warning("cannot look for what was missed yet", extra={"reason": error.message})
            await asyncio.sleep(_RETRY)


async def keep_looking(look: Look, every: float = LOOK_SECONDS) -> None:
    """Look every so many seconds, for ever."""
    while True:
        await asyncio.sleep(every)
        await look_now(look)


@asynccontextmanager
async def looking(bus: Bus, look: Look, every: float = LOOK_SECONDS) -> AsyncGenerator[None]:
    """Keep looking inside the block."""
    task = bus.spawn(keep_looking(look, every))
    try:
        yield
    finally:
        task.cancel()
