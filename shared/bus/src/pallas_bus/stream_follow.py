"""Every message of a stream from a position on, in order and for good, for a reader that keeps its own position."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress

from pallas_bus.connection import Bus
from pallas_bus.direct import Record, read
from pallas_bus.streams import live_subject
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""A look is taken so often even when nothing was heard: a replica of the stream may be behind what was heard."""
_RETRY = 0.5


async def follow(bus: Bus, stream: Stream, subject: str, *, after: int = 0) -> AsyncGenerator[Record | None]:
    """Yield what is stored on `subject` (wildcards allowed) behind position `after`, then what comes.

    None means that everything so far has been yielded. While the broker is away, or the stream is not there yet, this
    waits.
    """
    woken = asyncio.Event()

    async def heard(_: object) -> None:
        woken.set()

    async def reconnected() -> None:
        woken.set()

    assert stream.live is not None, "a stream that is followed is published again as it is stored"
    subscription = await bus.subscribe(live_subject(subject, stream.live), heard)
    remove = bus.on_reconnect(reconnected)
    told = False
    try:
        while True:
            woken.clear()
            try:
                async for record in read(bus, stream.name, subject, after=after):
                    after = record.seq
                    yield record
                yield None
                told = False
            except Unavailable as error:
                if not told:
                    log.warning("waiting for a stream", extra={"stream": stream.name, "reason": error.message})
                    told = True
                await asyncio.sleep(_RETRY)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await woken.wait()
    finally:
        remove()
        if bus.connected:
            await subscription.unsubscribe()
