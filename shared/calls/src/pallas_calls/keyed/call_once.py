"""Calls with an idempotency key, as a layer around `Calls`: what was called before is followed, not made again.

A turn of a key belongs to nobody: whoever leaves it, it runs to its end, or until it is cancelled by its key.
"""

import asyncio

from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.keyed.join_turn import explain_cancel, join_turn
from pallas_calls.model import Observer, Refusal, TurnEnd
from pallas_calls.service import Calls
from pallas_calls.submit_turn import Submitted, not_confirmed
from pallas_contracts.agents import Limits
from pallas_contracts.turns import TurnRequested


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
