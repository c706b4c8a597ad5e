"""Follow a turn to its end and notify its observer of what happens meanwhile."""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Protocol, Self

from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.turns import (
    CancelRequested,
    Claimed,
    Fault,
    InputRequired,
    Restarted,
    Result,
    TurnOutcome,
    turn_error,
)
from pallas_runtime.telemetry import tracer
from pallas_turns.cancel import LOG_LOST
from pallas_turns.claims import Cursor, TurnFound, TurnRef, Waiting, find_in_log, find_waiting
from pallas_turns.content import whole_result
from pallas_turns.feed import TurnFeed
from pallas_turns.feeds import TurnFeeds
from pallas_turns.model import Observer, TurnEnd
from pallas_turns.submit import not_relayed

log = logging.getLogger(__name__)

QUEUE_REPORT_AFTER = 0.25
QUEUE_INTERVAL = 1.0
"""Seconds after which the number of turns in front is reported, and between two reports."""


class FollowedTurn(Protocol):
    """Is notified of a turn that is followed here, on behalf of the platform."""

    async def ahead(self) -> int | None:
        """How many turns wait in front of it; None when that is not known."""
        ...

    def on_claim(self, claim: Claimed) -> None:
        """A worker has claimed the turn."""
        ...

    def on_cancelled_in_queue(self) -> None:
        """The turn was cancelled before any worker claimed it."""
        ...

    def on_log_lost(self) -> None:
        """The turn was cancelled because its log was lost."""
        ...

    def on_relayed(self) -> None:
        """An event was passed on to the caller."""
        ...


async def relay_turn(feed: TurnFeed, observer: Observer, turn: FollowedTurn) -> TurnEnd:
    """Return how the turn ended."""
    with tracer.start_as_current_span("relay_turn") as span:
        end = await _relay(feed, observer, turn)
        span.set_attribute("pallas.outcome", end.outcome.code or end.outcome.status)
        return end


async def _relay(feed: TurnFeed, observer: Observer, turn: FollowedTurn) -> TurnEnd:
    answer: Result | InputRequired | Fault | None = None
    await observer.on_followed()
    with _QueueReports(observer, turn) as reports:
        async for item in feed:
            waited, reports.due = reports.due, False
            match item:
                case Result() | InputRequired() | Fault():
                    answer = item
                case TurnOutcome():
                    return TurnEnd(item, answer, feed.cursor)
                case Claimed():
                    answer = None
                    turn.on_claim(item)
                    again = item.attempt > 1 and not (item.ends or item.continues)
                    if again and Cursor(item.attempt) > feed.behind:
                        await observer.on_attempt(item.attempt)
                case Restarted():
                    await observer.on_attempt(feed.cursor.attempt)
                case CancelRequested() if waited:
                    turn.on_cancelled_in_queue()
                case CancelRequested(reason=reason):
                    if reason == LOG_LOST:
                        turn.on_log_lost()
                case _ if observer.listens:
                    turn.on_relayed()
                    await observer.on_event(item, feed.cursor)
                case _:
                    pass
    raise AssertionError("a feed ends with an outcome")


@dataclass(slots=True)
class _QueueReports:
    """Reports how many turns are in front, after `QUEUE_REPORT_AFTER` seconds, while that is `due`.

    A waiting call holds it, so it is smaller than a generator.
    """

    observer: Observer
    turn: FollowedTurn
    due: bool = True
    _timer: asyncio.TimerHandle | None = None
    _reporting: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        if self.observer.listens:
            self._timer = asyncio.get_running_loop().call_later(QUEUE_REPORT_AFTER, self._start)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._reporting is not None:
            self._reporting.cancel()

    def _start(self) -> None:
        self._timer = None
        if self.due:
            self._reporting = asyncio.create_task(self._report())

    async def _report(self) -> None:
        while self.due:
            if (count := await self.turn.ahead()) is not None and self.due:
                await self.observer.on_queued(count)
            await asyncio.sleep(QUEUE_INTERVAL)


_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Resumed:
    """A turn that is followed again. `waiting` is where it is in its queue until a worker claims it."""

    feed: TurnFeed
    waiting: Waiting | None = None


async def resume_turn(
    bus: Bus, feeds: TurnFeeds, ref: TurnRef, behind: Cursor, *, progress: bool, text: bool = False
) -> Resumed | None:
    """Open the turn's feed behind a cursor. None: neither the log nor the queue has the turn any more.

    Retries without a deadline while the broker is unavailable. `progress` and `text`: whether the caller wants them.
    """
    facts = {"turn": ref.turn_id}
    feed = await feeds.resume(ref, behind=behind, skip=not_relayed(progress=progress, text=text))
    try:
        found, waiting = await retry_while_unavailable(
            lambda: _find(bus, ref), "find the turn", deadline=None, facts=facts
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


async def _find(bus: Bus, ref: TurnRef) -> tuple[TurnFound | None, Waiting | None]:
    """The turn as the log has it, or as its queue has it while the log has nothing."""
    if (found := await find_in_log(bus, ref)) is not None:
        return found, None
    if (waiting := await find_waiting(bus, ref)) is not None:
        return None, waiting
    # A turn leaves its queue only when the log has its end.
    return await find_in_log(bus, ref), None


async def whole_answer(bus: Bus, end: TurnEnd) -> TurnEnd:
    """The end of a turn with its whole answer; retries without a deadline while the broker is unavailable.

    When the answer is gone or damaged there is no answer, and the outcome has that as its code.
    """
    if not isinstance(answer := end.answer, Result) or answer.stowed is None:
        return end
    outcome = end.outcome
    ref = TurnRef(outcome.team, outcome.agent, outcome.turn_id)
    facts = {"turn": outcome.turn_id}
    try:
        whole = await retry_while_unavailable(
            lambda: whole_result(bus, ref, answer), "read the answer", deadline=None, facts=facts
        )
    except (NotFound, Rejected) as error:
        log.warning("the answer cannot be read", extra={**facts, "reason": error.message})
        return replace(end, outcome=outcome.model_copy(update={"code": turn_error(error.code)}), answer=None)
    return replace(end, answer=whole)
