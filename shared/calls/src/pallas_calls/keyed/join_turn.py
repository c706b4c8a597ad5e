"""Answer a call that was made before under its idempotency key: join its turn, or tell what became of it.

The key, its caller and what was called give the turn its id, so the log itself is the table of keys: it is looked at,
and nothing else is kept.
"""

import asyncio
import logging
from dataclasses import replace

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import claim_state
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.lookup import TurnFound, find_turn
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.model import Refusal, TurnEnd
from pallas_calls.submit_turn import (
    ONLY_THE_END,
    RETRY_AFTER_MS,
    Submitted,
    not_relayed,
)
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import TURN_ERRORS, CancelRequested, Fault, TurnRequested

log = logging.getLogger(__name__)

PATIENCE = 3.0
"""Seconds for which a call waits to know whether its turn is there."""

_LOOK_AGAIN = 0.05


async def join_turn(
    bus: Bus, feeds: TurnFeeds, request: TurnRequested, position: int = 0
) -> Submitted | Refusal | None:
    """Follow the turn that `request` would make, from its beginning; None when there is none yet.

    `position` is the one that it is known to have had in the queue's stream.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            found = await find_turn(bus, request, position)
            return await _answer(feeds, request, found) if found is not None else None
    except (TimeoutError, Unavailable) as error:
        log.warning("cannot look for the turn", extra={"turn": request.turn_id, "reason": str(error)})
        message = "The platform cannot take turns right now. Try again shortly, with the same key."
        return Refusal("busy", message, RETRY_AFTER_MS, limit="broker")


async def _answer(feeds: TurnFeeds, request: TurnRequested, found: TurnFound) -> Submitted | Refusal:
    if found.digest is not None and found.digest != request.digest:
        return Refusal("key_reused", f"{TURN_ERRORS['key_reused']} Its arguments were different.")
    if found.cancelled is not None and not found.ended:
        # It can have no other end, and it has none at all when it was cancelled before it was in its queue.
        return Refusal("cancelled", _why_cancelled(found.cancelled), turn_id=request.turn_id)
    skip = ONLY_THE_END if found.ended else not_relayed(progress=request.client.progress)
    while True:
        feed = await feeds.resume(TurnRef.of(request), skip=skip)
        if feed.position >= found.seen:
            return Submitted(request, feed, found.position, joined=True)
        # A replica of the log has answered that does not know as much as the leader.
        feeds.close(feed)
        await asyncio.sleep(_LOOK_AGAIN)


async def explain_cancel(bus: Bus, end: TurnEnd) -> TurnEnd:
    """Say why the turn was cancelled, when it was: whoever calls again under its key has perhaps not done it."""
    if end.outcome.status != "cancelled" or end.said is not None:
        return end
    ref = TurnRef(end.outcome.team, end.outcome.agent, end.outcome.turn_id)
    try:
        claim = (await claim_state(bus, ref)).claim
    except PallasError:
        return end
    reason = claim.reason if isinstance(claim, CancelRequested) else "no reason is known"
    return replace(end, said=Fault(message=_why_cancelled(reason)))


def _why_cancelled(reason: str) -> str:
    return f"The turn with this idempotency key was cancelled: {reason}. Use a new key to start another turn."
