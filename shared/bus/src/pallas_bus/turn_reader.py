"""The log of a turn as a gateway reads it: every event once, in order, whatever was lost on the way.

Live messages come over one subscription for all turns of this process. A gap (events that the numbering says exist but
that did not arrive) and a reconnect are repaired by reading the log itself, which any replica can do from any position.
Where nothing else comes there is no gap, so it is looked every few seconds which of the turns have ended unheard.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import NamedTuple

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.direct import read, read_last
from pallas_bus.looks import looking
from pallas_bus.streams import live_subject
from pallas_bus.turn_claims import Address
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_OUTCOME
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import AnyEvent, CancelRequested, Claimed, TurnClaim, TurnEvent, TurnEvents, TurnOutcome

log = logging.getLogger(__name__)

GAP_PATIENCE = 0.1
_REPLICA_TRIES = 30
"""Readings, `GAP_PATIENCE` apart, for which a replica may be behind what was heard."""
_REPAIR_RETRY = 0.5

MAX_UNREAD = 1000
_PASSING = frozenset(
    {
        "step",
        "tool_started",
        "tool_completed",
        "tool_failed",
        "tool_progress",
        "progress",
        "model_called",
        "text_delta",
        "log",
    }
)

_ANSWERS = frozenset({"result", "input_required", "fault"})

type Said = Claimed | CancelRequested | AnyEvent | TurnOutcome


class Place(NamedTuple):
    """How far a reader has come in a turn: an attempt, and the number of its last event that was told. 0 is none."""

    attempt: int = 0
    event: int = 0


BEGINNING = Place()
"""Nothing was told yet."""


@dataclass
class TurnFeed:
    """One turn as it happens: claims, then the attempt's events by number, at last the outcome.

    `position` is the position in the log up to which this feed has seen everything that is stored, `heard` that of the
    last live message. Events whose type is
    in `skip` are left out, and so are those up to `behind`, but for the answer of that attempt; a reader that is
    `MAX_UNREAD` behind misses what only reports progress. `place` is the one of the last event that was read from here.
    `context` is that of whoever opened the feed: what is done for it in the background is logged as of its turn.
    """

    address: Address
    skip: frozenset[str] = frozenset()
    position: int = 0
    heard: int = 0
    behind: Place = BEGINNING
    place: Place = BEGINNING
    attempt: int = 0
    _claim: int = 0
    _next: int = 1
    _early: dict[int, AnyEvent] = field(default_factory=dict[int, "AnyEvent"])
    _outcome: TurnOutcome | None = None
    _said: deque[tuple[Place, Said]] = field(default_factory=deque["tuple[Place, Said]"])
    _wake: asyncio.Future[None] | None = None
    _cancelled: bool = False
    catching_up: bool = False
    ended: bool = False
    context: Context = field(default_factory=copy_context, compare=False, repr=False)

    def __aiter__(self) -> AsyncIterator[Said]:
        return self

    async def __anext__(self) -> Said:
        while not self._said:
            if self.ended:
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        self.place, said = self._said.popleft()
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
        kind = getattr(said, "type", None)
        if kind in self.skip or (len(self._said) >= MAX_UNREAD and kind in _PASSING and not self.catching_up):
            return
        place = self._said[-1][0] if self._said else self.place
        if isinstance(said, TurnEvent):
            place = Place(self.attempt, said.seq)
            if place <= self.behind and not (kind in _ANSWERS and self.attempt == self.behind.attempt):
                return
        self._said.append((place, said))
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


@dataclass
class TurnFeeds:
    """All turns this process follows. Made by `follow_turns`."""

    bus: Bus
    _feeds: dict[str, list[TurnFeed]] = field(default_factory=dict[str, "list[TurnFeed]"])
    _repairing: set[int] = field(default_factory=set[int])

    def open(self, address: Address, *, skip: frozenset[str] = frozenset()) -> TurnFeed:
        """Follow a turn that has not been requested yet: nothing of it can have been missed."""
        feed = TurnFeed(address, skip)
        self._feeds.setdefault(address.turn_id, []).append(feed)
        return feed

    async def resume(
        self, address: Address, after: int = 0, *, behind: Place = BEGINNING, skip: frozenset[str] = frozenset()
    ) -> TurnFeed:
        """Follow a turn that may be under way or over, from its beginning.

        Messages up to position `after` are not read, events up to `behind` are not told. What the log has by now is
        told in full, however much it is.
        """
        feed = self.open(address, skip=skip)
        feed.position, feed.behind, feed.place = after, behind, behind
        try:
            await self.catch_up(feed)
        except BaseException:
            self.close(feed)
            raise
        return feed

    def close(self, feed: TurnFeed) -> None:
        """Stop following."""
        feeds = self._feeds.get(feed.address.turn_id, [])
        if feed in feeds:
            feeds.remove(feed)
        if not feeds:
            self._feeds.pop(feed.address.turn_id, None)

    async def heard(self, message: Msg) -> None:
        """Take one republished message of any turn."""
        *_, kind, _team, _agent, turn_id = message.subject.split(".")
        for feed in self._feeds.get(turn_id, ()):
            feed.heard = int((message.headers or {}).get("Nats-Sequence", "0"))
            _hear(feed, kind, message.subject, message.data)
            self._mind(feed)

    async def reread(self) -> None:
        """After a reconnect: read what was stored meanwhile."""
        begin = asyncio.get_running_loop().create_task
        feeds = [feed for feeds in self._feeds.values() for feed in feeds]
        await asyncio.gather(*(begin(self._read_on(feed), context=feed.context.copy()) for feed in feeds))

    async def look(self) -> None:
        """Read on in turns that have ended, or have been claimed or cancelled at all, without that being heard.

        One question is for a thousand turns, and what was heard is not answered.

        Raises:
            Unavailable: the log cannot be read.
        """
        feeds = [feed for feeds in self._feeds.values() for feed in feeds if not feed.ended]
        subjects = {subject for feed in feeds for subject in _awaited(feed)}
        missed = {record.subject for record in await read_last(self.bus, TURN_LOG.name, *subjects)}
        for feed in feeds:
            if id(feed) not in self._repairing and not missed.isdisjoint(_awaited(feed)):
                self._repairing.add(id(feed))
                self.bus.spawn(self._read_missed(feed), context=feed.context.copy())

    async def catch_up(self, feed: TurnFeed) -> None:
        """Read the log to its end for a reader that has not begun yet and so is not too slow: nothing is dropped."""
        feed.catching_up = True
        try:
            await self._read_on(feed)
        finally:
            feed.catching_up = False

    async def _read_on(self, feed: TurnFeed) -> None:
        """Read the log to its end; what is missing in it was never stored, for a turn is stored in order."""
        await self._repair(feed)
        if feed.position >= feed.heard:
            feed.give_up_gaps(feed.known)
        else:
            self._mind(feed)

    async def _read_missed(self, feed: TurnFeed) -> None:
        """Unlike `_read_on`, behind a route that broke: the replica that answers may not have it all yet."""
        try:
            await self._repair(feed)
        except BaseException:
            self._repairing.discard(id(feed))
            raise
        await self._mind_gap(feed)

    def _mind(self, feed: TurnFeed) -> None:
        if feed.waits_for_gap and id(feed) not in self._repairing:
            self._repairing.add(id(feed))
            self.bus.spawn(self._mind_gap(feed), context=feed.context.copy())

    async def _mind_gap(self, feed: TurnFeed) -> None:
        """Read what is missing. A replica that has not come to what was heard yet may have it a moment later."""
        tries = 0
        try:
            while feed.waits_for_gap:
                await asyncio.sleep(GAP_PATIENCE)
                known, heard, tries = feed.known, feed.heard, tries + 1
                await self._repair(feed)
                if feed.position >= heard or tries >= _REPLICA_TRIES:
                    feed.give_up_gaps(known)
        finally:
            self._repairing.discard(id(feed))

    async def _repair(self, feed: TurnFeed) -> None:
        while not feed.ended:
            try:
                async for record in read(self.bus, TURN_LOG.name, feed.address.everything, after=feed.position):
                    _hear(feed, record.subject.split(".")[3], record.subject, record.data)
                    feed.position = record.seq
            except Unavailable as error:
                log.warning("cannot read the log", extra={"turn": feed.address.turn_id, "reason": error.message})
                await asyncio.sleep(_REPAIR_RETRY)
            else:
                return


def _awaited(feed: TurnFeed) -> Iterator[str]:
    """The subjects that are looked at: nothing is on them yet, as far as the feed has heard."""
    yield feed.address.on(TURN_OUTCOME.template)
    if feed.empty:
        yield feed.address.on(TURN_CLAIM.template)


def _hear(feed: TurnFeed, kind: str, subject: str, data: bytes) -> None:
    try:
        feed.hear(kind, data)
    except ValidationError as error:
        facts = {"subject": subject, "faults": error.error_count()}
        feed.context.copy().run(log.warning, "unreadable turn message", extra=facts)


@asynccontextmanager
async def follow_turns(bus: Bus) -> AsyncGenerator[TurnFeeds]:
    """Listen to what happens to turns, for as many feeds as are opened."""
    feeds = TurnFeeds(bus)
    subscription = await bus.subscribe(live_subject("pallas.v1.turn.>"), feeds.heard)
    remove = bus.on_reconnect(feeds.reread)
    try:
        async with looking(bus, feeds.look):
            yield feeds
    finally:
        remove()
        with suppress(Exception):  # closing: a connection that is gone already has no subscription either
            await subscription.unsubscribe()


@asynccontextmanager
async def hear_claims(
    bus: Bus, heard: Callable[[TurnClaim, int], None], *, team: str | None = None
) -> AsyncGenerator[None]:
    """Call `heard(claim, position)` for every claim and cancel of any turn (of that team), as it is stored."""
    wanted = TURN_CLAIM.template.filter(**({"team": team} if team is not None else {}))

    async def arrived(message: Msg) -> None:
        try:
            said = TurnClaim.model_validate_json(message.data)
        except ValidationError as error:
            log.warning("unreadable claim", extra={"subject": message.subject, "faults": error.error_count()})
        else:
            heard(said, int((message.headers or {})["Nats-Sequence"]))

    subscription = await bus.subscribe(live_subject(wanted), arrived)
    try:
        yield
    finally:
        with suppress(Exception):  # closing: a connection that is gone already has no subscription either
            await subscription.unsubscribe()
