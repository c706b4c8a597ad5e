"""The log of one turn as a gateway reads it: every event once, in order, whatever was lost on the way.

A feed is told whatever arrives, live or read, in any order and as often as it comes. It knows by the numbering what is
missing; `turn_feeds` reads that from the log.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from pallas_bus.turnlog.cursor import BEGINNING, Cursor
from pallas_bus.turnlog.ref import TurnRef
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

MAX_UNREAD = 1000

type Said = Claimed | CancelRequested | AnyEvent | TurnOutcome


@dataclass(eq=False)
class TurnFeed:
    """One turn as it happens: claims, then the attempt's events by number, at last the outcome.

    A feed equals only itself: two callers may follow one turn, each by a feed of its own.
    `position` is the position in the log up to which this feed has seen everything that is stored, `heard` that of the
    last live message. Events whose type is
    in `skip` are left out, and so are those up to `behind`, but for the answer of that attempt; a reader that is
    `MAX_UNREAD` behind misses what only reports progress. `place` is the one of the last event that was read from here.
    `context` is that of whoever opened the feed: what is done for it in the background is logged as of its turn.
    """

    ref: TurnRef
    skip: frozenset[str] = frozenset()
    position: int = 0
    heard: int = 0
    behind: Cursor = BEGINNING
    cursor: Cursor = BEGINNING
    attempt: int = 0
    _claim: int = 0
    _next: int = 1
    _early: dict[int, AnyEvent] = field(default_factory=dict[int, "AnyEvent"])
    _outcome: TurnOutcome | None = None
    _said: deque[tuple[Cursor, Said]] = field(default_factory=deque["tuple[Cursor, Said]"])
    _wake: asyncio.Future[None] | None = None
    _cancelled: bool = False
    catching_up: bool = False
    ended: bool = False
    context: Context = field(default_factory=copy_context, repr=False)

    def __aiter__(self) -> AsyncIterator[Said]:
        return self

    async def __anext__(self) -> Said:
        while not self._said:
            if self.ended:
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        self.cursor, said = self._said.popleft()
        return said

    @property
    def empty(self) -> bool:
        """Whether nothing at all is known of the turn."""
        return not self.attempt and not self._cancelled

    @property
    def waits_for_gap(self) -> bool:
        """Whether something is known to exist that has not arrived."""
        return not self.ended and (bool(self._early) or self._outcome is not None)

    def hear(self, kind: str, data: bytes) -> None:
        """Take one message of the turn, live or from the log; what was heard before or comes behind the end changes
        nothing.
        """
        if self.ended:
            return
        match kind:
            case "claim":
                self._claimed(TurnClaim.model_validate_json(data).claim)
            case "event" | "content":
                self._happened(TurnEvents.model_validate_json(data))
            case "outcome":
                self._outcome = TurnOutcome.model_validate_json(data)
                self._advance(self._outcome.attempt)
            case _:
                return
        self._drain()

    def _claimed(self, claim: Claimed | CancelRequested) -> None:
        if isinstance(claim, CancelRequested):
            if not self._cancelled:
                self._cancelled = True
                self._say(claim)
        elif claim.attempt >= self.attempt and claim.attempt > self._claim:
            self._advance(claim.attempt)
            self._claim = claim.attempt
            self._say(claim)

    def _happened(self, batch: TurnEvents) -> None:
        self._advance(batch.attempt)
        if batch.attempt == self.attempt:
            self._early.update({event.seq: event for event in batch.events if event.seq >= self._next})

    def _advance(self, attempt: int) -> None:
        """A newer attempt makes everything of the older one void."""
        if attempt > self.attempt:
            self.attempt, self._next = attempt, 1
            self._early.clear()

    def _drain(self) -> None:
        """Say what is there in its order: the claim, events by number, the outcome. Behind an end no claim matters."""
        outcome = self._outcome
        if outcome is not None and outcome.attempt == self.attempt:
            self._claim = self.attempt
        while self._claim == self.attempt and (event := self._early.pop(self._next, None)) is not None:
            self._next += 1
            self._say(event)
        if outcome is None or self.ended:
            return
        if self._next > outcome.events or outcome.attempt < self.attempt:
            self.ended = True
            self._say(outcome)

    def _say(self, said: Said) -> None:
        cursor = self._said[-1][0] if self._said else self.cursor
        if isinstance(said, TurnEvent):
            final, cursor = isinstance(said, FinalEvent), Cursor(self.attempt, said.seq)
            late = len(self._said) >= MAX_UNREAD and not self.catching_up
            if not final and (late or said.type in self.skip):
                return
            if cursor <= self.behind and not (final and self.attempt == self.behind.attempt):
                return
        self._said.append((cursor, said))
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    @property
    def known(self) -> tuple[int, int]:
        """The attempt, and the highest number of its events that is known to exist (one more once it has ended)."""
        return self.attempt, max([self._beyond, *self._early])

    @property
    def _beyond(self) -> int:
        """The number behind the last event, once the turn has ended; 0 before."""
        return self._outcome.events + 1 if self._outcome is not None else 0

    def give_up_gaps(self, known: tuple[int, int]) -> None:
        """Go on without the claim, and the events below `known`, an earlier value of it, that are still missing.

        Call it when the log has been read after that: they have expired or were never stored.
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
