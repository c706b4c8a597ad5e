"""Follow a turn again after its stream broke, at this gateway or another: from a cursor to the turn's end."""

import asyncio
from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.feed import TurnFeed
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.lookup import TurnFound, Waiting, find_in_log, find_waiting
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.submit_turn import not_relayed
from pallas_contracts.turns import Principal

_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Resumed:
    """A turn that is followed again. `waiting` is where it is in its queue until a worker claims it."""

    feed: TurnFeed
    waiting: Waiting | None = None


async def resume_turn(
    bus: Bus, feeds: TurnFeeds, ref: TurnRef, caller: Principal, behind: Cursor, *, progress: bool, text: bool = False
) -> Resumed | None:
    """Open the turn's feed behind a cursor. None: neither the log nor the queue has the turn any more.

    Retries without a deadline while the broker is unavailable. `progress` and `text`: whether the caller wants them.
    """
    facts = {"turn": ref.turn_id}
    feed = await feeds.resume(ref, behind=behind, skip=not_relayed(progress=progress, text=text))
    try:
        found, waiting = await retry_while_unavailable(
            lambda: _find(bus, ref, caller), "find the turn", deadline=None, facts=facts
        )
        while found is not None and not feed.ended and feed.position < found.seen:
            # The replica of the log that answered is behind the leader.
            await asyncio.sleep(_POLL_SECONDS)
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
    if (found := await find_in_log(bus, ref)) is not None:
        return found, None
    if (waiting := await find_waiting(bus, ref, caller)) is not None:
        return None, waiting
    # A turn leaves its queue only when the log has its end.
    return await find_in_log(bus, ref), None
