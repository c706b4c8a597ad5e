"""The feeds of all turns that a process follows.

One subscription receives the live messages of all turns; a process that follows few of them has one for each. After a
gap (missing numbers) and after a reconnect, the log is read from the feed's position. When the last messages of a turn
are lost there is no gap, so the outcomes of all followed turns are polled every few seconds.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic import ValidationError

from pallas_bus.connection import Bus, Msg, Subscription
from pallas_bus.errors import polling, retry_while_unavailable
from pallas_bus.reads import read, read_last
from pallas_bus.streams import live_subject
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_OUTCOME
from pallas_contracts.turns import TurnEvent
from pallas_turns.claims import BEGINNING, Cursor, TurnRef
from pallas_turns.feed import TurnFeed

log = logging.getLogger(__name__)

GAP_SECONDS = 0.1
"""Seconds until missing events are read from the log: live messages may only be out of order."""

_REPLICA_TRIES = 30
"""Reads, `GAP_SECONDS` apart, until a replica must have what was received live."""


@dataclass
class TurnFeeds:
    """All turns this process follows. Made by `follow_turns`. With `alone`, each has a subscription of its own."""

    bus: Bus
    alone: bool = False
    _subscriptions: dict[str, Subscription] = field(default_factory=dict[str, Subscription])
    _feeds: dict[str, list[TurnFeed]] = field(default_factory=dict[str, "list[TurnFeed]"])
    _repairing: set[TurnFeed] = field(default_factory=set[TurnFeed])

    def open(self, ref: TurnRef, *, skip: frozenset[type[TurnEvent]] = frozenset()) -> TurnFeed:
        """Follow a turn that has not been requested yet, so nothing of it can have been missed."""
        feed = TurnFeed(ref, skip)
        feeds = self._feeds.setdefault(ref.turn_id, [])
        feeds.append(feed)
        if self.alone and len(feeds) == 1:
            # At once: the broker has it before the turn that is submitted next.
            self.bus.spawn(self._subscribe(ref), at_once=True)
        return feed

    async def resume(
        self,
        ref: TurnRef,
        *,
        behind: Cursor = BEGINNING,
        skip: frozenset[type[TurnEvent]] = frozenset(),
    ) -> TurnFeed:
        """Follow a turn that may run or have ended, from its beginning.

        Events up to `behind` are left out. What the log has by now is in the feed completely: `MAX_UNREAD` does not
        count for it.
        """
        feed = self.open(ref, skip=skip)
        feed.behind = feed.cursor = behind
        try:
            await self.catch_up(feed)
        except BaseException:
            self.close(feed)
            raise
        return feed

    def close(self, feed: TurnFeed) -> None:
        """Stop following."""
        feeds = self._feeds.get(feed.ref.turn_id, [])
        if feed in feeds:
            feeds.remove(feed)
        if not feeds:
            self._feeds.pop(feed.ref.turn_id, None)
            if (subscription := self._subscriptions.pop(feed.ref.turn_id, None)) is not None:
                self.bus.spawn(self.bus.unsubscribe(subscription), at_once=True)

    async def _subscribe(self, ref: TurnRef) -> None:
        subscription = await self.bus.listen(live_subject(ref.everything), self.on_message)
        if ref.turn_id in self._feeds and ref.turn_id not in self._subscriptions:
            self._subscriptions[ref.turn_id] = subscription
        else:  # it was closed meanwhile, and perhaps opened again
            await self.bus.unsubscribe(subscription)

    def on_message(self, message: Msg) -> None:
        """Pass a live message on to the feeds of its turn."""
        *_, kind, _team, _agent, turn_id = message.subject.split(".")
        for feed in self._feeds.get(turn_id, ()):
            feed.live_position = int((message.headers or {}).get("Nats-Sequence", "0"))
            try:
                feed.on_message(kind, message.data)
            except ValidationError as error:
                _warn_unreadable(feed, message.subject, error)
            if not feed.ended and feed.waits_for_gap:
                self._start_repair(feed)

    async def reread(self) -> None:
        """Read what was stored while there was no connection."""
        begin = asyncio.get_running_loop().create_task
        feeds = [feed for feeds in self._feeds.values() for feed in feeds]
        await asyncio.gather(*(begin(self._read_on(feed), context=feed.context.copy()) for feed in feeds))

    async def poll(self) -> None:
        """Find turns whose outcome, first claim or cancel was not received live, and read their log.

        One request covers about a thousand turns. It names only messages that have not been received.

        Raises:
            Unavailable: the log cannot be read.
        """
        feeds = [feed for feeds in self._feeds.values() for feed in feeds if not feed.ended]
        subjects = {subject for feed in feeds for subject in _awaited(feed)}
        missed = {record.subject for record in await read_last(self.bus, TURN_LOG.name, *subjects)}
        for feed in feeds:
            if feed not in self._repairing and not missed.isdisjoint(_awaited(feed)):
                self._repairing.add(feed)
                self.bus.spawn(self._read_missed(feed), context=feed.context.copy())

    async def catch_up(self, feed: TurnFeed) -> None:
        """Read the log to its end. The reader has not begun yet, so it is not too slow: no event is dropped."""
        feed.catching_up = True
        try:
            await self._read_on(feed)
        finally:
            feed.catching_up = False

    async def _read_on(self, feed: TurnFeed) -> None:
        """Read the log to its end. What is missing there was never stored: a turn's messages are stored in order."""
        await self._repair(feed)
        if feed.position >= feed.live_position:
            feed.give_up_gaps(feed.known)
        else:
            self._start_repair(feed)

    async def _read_missed(self, feed: TurnFeed) -> None:
        """Read the log after a route broke: unlike in `_read_on`, the replica that answers may not have all yet."""
        try:
            await self._repair(feed)
        except BaseException:
            self._repairing.discard(feed)
            raise
        await self._repair_gap(feed)

    def _start_repair(self, feed: TurnFeed) -> None:
        """Repair the feed in the background if it has a gap."""
        if feed.waits_for_gap and feed not in self._repairing:
            self._repairing.add(feed)
            self.bus.spawn(self._repair_gap(feed), context=feed.context.copy())

    async def _repair_gap(self, feed: TurnFeed) -> None:
        """Read the log until the gap is closed. A replica that is behind the live messages may have them soon."""
        tries = 0
        try:
            while feed.waits_for_gap:
                await asyncio.sleep(GAP_SECONDS)
                known, live_position, tries = feed.known, feed.live_position, tries + 1
                await self._repair(feed)
                if feed.position >= live_position or tries >= _REPLICA_TRIES:
                    feed.give_up_gaps(known)
        finally:
            self._repairing.discard(feed)

    async def _repair(self, feed: TurnFeed) -> None:
        async def read_on() -> None:
            if feed.ended:
                return
            async for record in read(self.bus, TURN_LOG.name, feed.ref.everything, after=feed.position):
                _pass_on(feed, record.subject.split(".")[3], record.subject, record.data)
                feed.position = record.seq

        await retry_while_unavailable(read_on, "read the log", deadline=None, facts={"turn": feed.ref.turn_id})


def _awaited(feed: TurnFeed) -> Iterator[str]:
    """The subjects that are polled: the feed has had no message on them yet."""
    yield feed.ref.on(TURN_OUTCOME.template)
    if feed.empty:
        yield feed.ref.on(TURN_CLAIM.template)


def _pass_on(feed: TurnFeed, kind: str, subject: str, data: bytes) -> None:
    try:
        feed.on_message(kind, data)
    except ValidationError as error:
        _warn_unreadable(feed, subject, error)


def _warn_unreadable(feed: TurnFeed, subject: str, error: ValidationError) -> None:
    facts = {"subject": subject, "faults": error.error_count()}
    feed.context.copy().run(log.warning, "unreadable turn message", extra=facts)


@asynccontextmanager
async def follow_turns(bus: Bus, *, alone: bool = False) -> AsyncGenerator[TurnFeeds]:
    """Receive live messages inside the block, for the feeds that are opened there.

    `alone`: each turn has a subscription of its own. That is for a process that follows few of all turns, because the
    broker then sends it no others.
    """
    feeds = TurnFeeds(bus, alone)
    everything = None if alone else await bus.listen(live_subject("pallas.v1.turn.>"), feeds.on_message)
    remove = bus.on_reconnect(feeds.reread)
    try:
        async with polling(bus, feeds.poll):
            yield feeds
    finally:
        remove()
        if everything is not None:
            await bus.unsubscribe(everything)
