"""The log of one turn as a gateway reads it: every event once and in order, also when messages were lost.

A feed takes messages in any order and any number of times, live ones and those read from the log. By the numbers of
events it knows which are missing; `TurnFeeds` reads them from the log.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from pallas_contracts.turns import (
    AnyEvent,
    CancelRequested,
    Claimed,
    FinalEvent,
    TurnClaim,
    TurnEvent,
    TurnEvents,
    TurnOutcome,
)
from pallas_turns.claims import BEGINNING, Cursor, TurnRef

MAX_UNREAD = 1000

type FeedItem = Claimed | CancelRequested | AnyEvent | TurnOutcome


@dataclass(eq=False, slots=True)
class TurnFeed:
    """Iterate over it to follow a turn: claims, the events of the last attempt by number, and finally the outcome.

    `position` is the position in the log up to which everything was read, `live_position` that of the last live
    message. Events of the classes `skip` are left out, and so are those up to `behind`, except the answer of that
    attempt. A reader with
    `MAX_UNREAD` unread items gets no more events until it has caught up, except the answer. `cursor` is the cursor of
    the last item that was read from the feed. `context` is that of the caller who opened the feed: log lines of
    background work for the feed belong to its turn. A feed equals only itself, since several callers may follow one
    turn.
    """

    ref: TurnRef
    skip: frozenset[type[TurnEvent]] = frozenset()
    position: int = 0
    live_position: int = 0
    behind: Cursor = BEGINNING
    cursor: Cursor = BEGINNING
    attempt: int = 0
    _claim: int = 0
    _next: int = 1
    _early: dict[int, AnyEvent] = field(default_factory=dict[int, "AnyEvent"])
    _outcome: TurnOutcome | None = None
    _unread: deque[tuple[Cursor, FeedItem]] = field(default_factory=deque["tuple[Cursor, FeedItem]"])
    _wake: asyncio.Future[None] | None = None
    _cancelled: bool = False
    catching_up: bool = False
    ended: bool = False
    context: Context = field(default_factory=copy_context, repr=False)

    def __aiter__(self) -> AsyncIterator[FeedItem]:
        return self

    async def __anext__(self) -> FeedItem:
        while not self._unread:
            if self.ended:
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        self.cursor, item = self._unread.popleft()
        return item

    @property
    def empty(self) -> bool:
        """Whether there was no claim and no event of the turn yet."""
        return not self.attempt and not self._cancelled

    @property
    def waits_for_gap(self) -> bool:
        """Whether events are missing that are known to exist."""
        return not self.ended and (bool(self._early) or self._outcome is not None)

    def on_message(self, kind: str, data: bytes) -> None:
        """Take one message of the turn, live or from the log; `kind` is the fourth token of its subject.

        Messages that were taken before, and those behind the outcome, change nothing.

        Raises:
            ValidationError: the message cannot be decoded.
        """
        if self.ended:
            return
        match kind:
            case "claim":
                self._claimed(TurnClaim.model_validate_json(data).claim)
            case "event" | "content":
                batch = TurnEvents.model_validate_json(data)
                if batch.attempt > self.attempt:
                    self._advance(batch.attempt)
                if batch.attempt == self.attempt:
                    self._early.update({event.seq: event for event in batch.events if event.seq >= self._next})
            case "outcome":
                self._outcome = outcome = TurnOutcome.model_validate_json(data)
                if outcome.attempt > self.attempt:
                    self._advance(outcome.attempt)
            case _:
                return
        self._drain()

    def _claimed(self, claim: Claimed | CancelRequested) -> None:
        if isinstance(claim, CancelRequested):
            if not self._cancelled:
                self._cancelled = True
                self._add(claim)
        elif claim.attempt >= self.attempt and claim.attempt > self._claim:
            if claim.attempt > self.attempt:
                self._advance(claim.attempt)
            self._claim = claim.attempt
            self._add(claim)

    def _advance(self, attempt: int) -> None:
        """A newer attempt supersedes the older one, whose events are dropped."""
        self.attempt, self._next = attempt, 1
        self._early.clear()

    def _drain(self) -> None:
        """Add what is complete, in order: events by number behind their claim, then the outcome.

        Once there is an outcome, events do not wait for the claim.
        """
        outcome = self._outcome
        if outcome is not None and outcome.attempt == self.attempt:
            self._claim = self.attempt
        while self._claim == self.attempt and (event := self._early.pop(self._next, None)) is not None:
            self._next += 1
            self._add(event)
        if outcome is None or self.ended:
            return
        if self._next > outcome.events or outcome.attempt < self.attempt:
            self.ended = True
            self._add(outcome)

    def _add(self, item: FeedItem) -> None:
        """Add an item for the reader, unless it is an event that this reader does not get."""
        cursor = self._unread[-1][0] if self._unread else self.cursor
        if isinstance(item, TurnEvent):
            final, cursor = isinstance(item, FinalEvent), Cursor(self.attempt, item.seq)
            late = len(self._unread) >= MAX_UNREAD and not self.catching_up
            if not final and (late or type(item) in self.skip):
                return
            if cursor <= self.behind and not (final and self.attempt == self.behind.attempt):
                return
        self._unread.append((cursor, item))
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    @property
    def known(self) -> tuple[int, int]:
        """The attempt, and the highest number of its events that are known to exist; once it has ended, one more."""
        return self.attempt, max([self._beyond, *self._early])

    @property
    def _beyond(self) -> int:
        """The number behind the last event, once the turn has ended; 0 before."""
        return self._outcome.events + 1 if self._outcome is not None else 0

    def give_up_gaps(self, known: tuple[int, int]) -> None:
        """Skip the claim and the events up to `known` that are missing.

        `known` is the property's value before the log was read: what is still missing has expired or was never stored.
        """
        attempt, highest = known
        if self.attempt == attempt and not self.ended:
            self._claim = attempt
            self._drain()
        while self.waits_for_gap and self.attempt == attempt:
            following = min(self._early, default=self._beyond)
            if following > highest:
                return
            self._next = following
            self._drain()
