"""Follow a turn to its end and notify its observer of what happens meanwhile."""

import asyncio
from dataclasses import dataclass
from typing import Protocol, Self

from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.feed import TurnFeed
from pallas_calls.model import TurnEnd
from pallas_calls.observer import Observer
from pallas_contracts.turns import CancelRequested, Claimed, Fault, InputRequired, Restarted, Result, TurnOutcome
from pallas_runtime.telemetry import tracer

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
                case CancelRequested():
                    pass
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
