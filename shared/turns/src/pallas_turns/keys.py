"""Calls with an idempotency key, as a layer around `Calls`: what was called before is followed, not made again.

The turn's id follows from the key, the caller's owner and the tool, so the log itself is the table of keys. A turn of a
key belongs to nobody: whoever leaves it, it runs to its end, or until it is cancelled by its key.
"""

import asyncio
import logging
from dataclasses import replace

from pallas_bus.connection import Bus
from pallas_contracts.agents import Limits
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import TURN_ERRORS, CancelRequested, Fault, TurnAsked, TurnRequested
from pallas_turns.calls import Calls
from pallas_turns.claims import TurnFound, TurnRef, claim_state, find_in_log, find_turn, find_waiting, request_cancel
from pallas_turns.feeds import TurnFeeds
from pallas_turns.model import Observer, Refusal, TurnEnd
from pallas_turns.submit import ONLY_THE_END, Submitted, not_confirmed, not_relayed


async def call_once(calls: Calls, request: TurnRequested, limits: Limits, observer: Observer) -> TurnEnd | Refusal:
    """Make the turn, or with a key follow the one that was made before, to its end."""
    if not request.is_shared:
        return await calls.call(request, limits, observer)
    submitted = await _make_or_join(calls, request, limits, observer)
    if isinstance(submitted, Refusal):
        return submitted
    end = await calls.follow(submitted, limits, observer)
    return await explain_cancel(calls.bus, TurnRef.of(request), end) if isinstance(end, TurnEnd) else end


async def call_child(
    calls: Calls, request: TurnRequested, limits: Limits, observer: Observer, *, again: bool
) -> TurnEnd | Refusal:
    """Make the turn of a call inside another turn, and follow it to its end.

    Its id follows from its parent and its place there (`child_id`), so it is made once: with `again` an earlier attempt
    may have made it. Whoever cancels the parent cancels its children; when this is cancelled, the turn is cancelled
    only if `Observer.caller_left`.
    """
    try:
        submitted = await _make_or_join(calls, request, limits, observer, first=not again)
    except asyncio.CancelledError:
        if again:
            calls.left(request, 0, observer)
        raise
    return submitted if isinstance(submitted, Refusal) else await calls.follow(submitted, limits, observer)


async def _make_or_join(
    calls: Calls, request: TurnRequested, limits: Limits, observer: Observer, *, first: bool = False
) -> Submitted | Refusal:
    """Submit the turn, or join it if there is one; `first`: nobody can have made it before."""
    if not first:
        if (refused := calls.cannot_store()) is not None:
            return calls.refuse(request, refused)
        if (found := await _join(calls, request, observer)) is not None:
            return found
    submitted = await calls.submit(request, limits, observer)
    if isinstance(submitted, Refusal) or not submitted.joined:
        return submitted
    calls.feeds.close(submitted.feed)  # it misses the beginning: another call has made the turn before
    return await _join(calls, request, observer) or not_confirmed(request)


async def _join(calls: Calls, request: TurnRequested, observer: Observer) -> Submitted | Refusal | None:
    found = await join_turn(calls.bus, calls.feeds, request, text=observer.text)
    if isinstance(found, Submitted):
        try:
            await observer.on_admitted()
        except BaseException:
            calls.feeds.close(found.feed)
            raise
        calls.metrics.turn_joined(request)
    return found


log = logging.getLogger(__name__)

FIND_TIMEOUT = 3.0
"""Seconds in which the turn must be found, or found to be missing."""

_POLL_SECONDS = 0.05


async def join_turn(
    bus: Bus, feeds: TurnFeeds, request: TurnRequested, *, text: bool = False
) -> Submitted | Refusal | None:
    """Follow the turn that `request` would make, from its beginning; None when there is none yet.

    `text`: the caller wants models' text.
    """
    try:
        async with asyncio.timeout(FIND_TIMEOUT):
            found = await find_turn(bus, request)
            return await answer_found(feeds, request, found, text=text) if found is not None else None
    except (TimeoutError, Unavailable) as error:
        log.warning("cannot find the turn in time", extra={"turn": request.turn_id, "reason": str(error)})
        return replace(not_confirmed(request), turn_id=None)


async def answer_found(
    feeds: TurnFeeds, request: TurnRequested, found: TurnFound, *, text: bool = False
) -> Submitted | Refusal:
    """Follow a turn that was found, or say why it cannot be followed."""
    if found.digest is not None and found.digest != request.digest:
        return Refusal("key_reused", f"{TURN_ERRORS['key_reused']} Its arguments were different.")
    if found.cancelled is not None and not found.ended:
        # It can end in no other way, and has no outcome when it was cancelled before it was in its queue.
        return Refusal("cancelled", _why_cancelled(found.cancelled), turn_id=request.turn_id)
    if found.maker is not None:
        request = request.model_copy(update={"principal": found.maker})  # it counts for whoever has made it
    skip = ONLY_THE_END if found.ended else not_relayed(progress=request.client.progress, text=text)
    while True:
        feed = await feeds.resume(TurnRef.of(request), skip=skip)
        if feed.position >= found.seen:
            return Submitted(request, feed, found.position, joined=True)
        # The replica of the log that answered is behind the leader.
        feeds.close(feed)
        await asyncio.sleep(_POLL_SECONDS)


async def explain_cancel(bus: Bus, ref: TurnRef, end: TurnEnd) -> TurnEnd:
    """Add the reason to the end of a cancelled turn: the caller of its key may not be the one who cancelled it."""
    if end.outcome.status != "cancelled" or end.answer is not None:
        return end
    try:
        claim = (await claim_state(bus, ref)).claim
    except PallasError:
        return end
    reason = claim.reason if isinstance(claim, CancelRequested) else "no reason is known"
    return replace(end, answer=Fault(message=_why_cancelled(reason)))


def _why_cancelled(reason: str) -> str:
    return f"The turn with this idempotency key was cancelled: {reason}. Use a new key to start another turn."


_REASON = "cancelled by the caller"


async def cancel_key(calls: Calls, request: TurnRequested) -> TurnEnd | Refusal:
    """Cancel the turn that `request` would make, whoever follows it. Returns its end if it was over before.

    The arguments of the request do not matter. The key is used up: whatever is called with it later is cancelled.
    """
    bus, over = calls.bus, None
    try:
        async with asyncio.timeout(FIND_TIMEOUT):
            found = await find_in_log(bus, TurnRef.of(request))
            if found is not None and found.ended:
                over = await answer_found(calls.feeds, request.model_copy(update={"digest": found.digest}), found)
            else:
                # What the order says besides is its own; the turn's request may say something else.
                asked = TurnAsked(tool=request.tool, principal=request.principal)
                await request_cancel(bus, TurnRef.of(request), _REASON, asked)
    except (TimeoutError, Unavailable) as error:
        log.warning("cannot cancel the turn in time", extra={"turn": request.turn_id, "reason": str(error)})
        return not_confirmed(request)
    if isinstance(over, Refusal):
        return over
    if over is not None:
        end = await calls.relay(TurnRef.of(request), over.feed, None, Observer())
        return await explain_cancel(bus, TurnRef.of(request), end)
    log.info("cancel requested", extra={"turn": request.turn_id, "why": _REASON})
    bus.spawn(_withdraw(calls, request))
    return Refusal("cancelled", "The turn with this idempotency key is cancelled.", turn_id=request.turn_id)


async def _withdraw(calls: Calls, request: TurnRequested) -> None:
    try:
        waiting = await find_waiting(calls.bus, TurnRef.of(request))
    except PallasError as error:
        log.warning("cannot withdraw a turn", extra={"turn": request.turn_id, "reason": error.message})
    else:
        if waiting is not None:
            await calls.withdraw(waiting.request, waiting.position)
