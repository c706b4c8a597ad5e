"""Take up a turn that another stream followed, on this gateway or another: behind what was told there, to its end."""

import asyncio
import logging
from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.feed import TurnFeed
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.lookup import (
    TurnFound,
    Waiting,
    find_in_log,
    find_waiting,
)
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.submit_turn import not_relayed
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import Principal

log = logging.getLogger(__name__)

_RETRY = 0.5
_LOOK_AGAIN = 0.05


@dataclass(frozen=True, slots=True)
class Resumed:
    """A turn that is followed again. `waiting` is where it is in its queue, while no worker has had it."""

    feed: TurnFeed
    waiting: Waiting | None = None


async def resume_turn(
    bus: Bus, feeds: TurnFeeds, ref: TurnRef, caller: Principal, behind: Cursor, *, progress: bool
) -> Resumed | None:
    """Open the turn's feed behind what was told. None: neither the log nor the queue knows the turn any more.

    Waits while the broker is away. `progress` is whether the caller of the turn wants its progress.
    """
    feed = await feeds.resume(ref, behind=behind, skip=not_relayed(progress=progress))
    try:
        found, waiting = await _find(bus, ref, caller)
        while found is not None and not feed.ended and feed.position < found.seen:
            # A replica of the log has answered that does not know as much as the leader.
            await asyncio.sleep(_LOOK_AGAIN)
            await feeds.catch_up(feed)
    except BaseException:
        feeds.close(feed)
        raise
    if found is None and waiting is None and feed.empty:
        feeds.close(feed)
        return None
    return Resumed(feed, waiting)


async def _find(bus: Bus, ref: TurnRef, caller: Principal) -> tuple[TurnFound | None, Waiting | None]:
    """The turn as the log has it, or as its queue has it while the log has nothing."""
    while True:
        try:
            if (found := await find_in_log(bus, ref)) is not None:
                return found, None
            if (waiting := await find_waiting(bus, ref, caller)) is not None:
                return None, waiting
            # It leaves its queue only when the log has its end.
            return await find_in_log(bus, ref), None
        except Unavailable as error:
            log.warning("cannot look for the turn", extra={"turn": ref.turn_id, "reason": error.message})
            await asyncio.sleep(_RETRY)
