"""All turns that a process follows, each by a feed.

Live messages come over one subscription for all of them. A gap (events that the numbering says exist but that did not
arrive) and a reconnect are repaired by reading the log itself, which any replica can do from any position. Where
nothing else comes there is no gap, so it is looked every few seconds which of the turns have ended unheard.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.polling import polling
from pallas_bus.transport.reads import read, read_last
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_bus.transport.streams import live_subject
from pallas_bus.turnlog.cursor import BEGINNING, Cursor
from pallas_bus.turnlog.feed import TurnFeed
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_OUTCOME

log = logging.getLogger(__name__)

GAP_PATIENCE = 0.1
_REPLICA_TRIES = 30
"""Readings, `GAP_PATIENCE` apart, for which a replica may be behind what was heard."""


@dataclass
class TurnFeeds:
    """All turns this process follows. Made by `follow_turns`."""

    bus: Bus
    _feeds: dict[str, list[TurnFeed]] = field(default_factory=dict[str, "list[TurnFeed]"])
    _repairing: set[TurnFeed] = field(default_factory=set[TurnFeed])

    def open(self, ref: TurnRef, *, skip: frozenset[str] = frozenset()) -> TurnFeed:
        """Follow a turn that has not been requested yet: nothing of it can have been missed."""
        feed = TurnFeed(ref, skip)
        self._feeds.setdefault(ref.turn_id, []).append(feed)
        return feed

    async def resume(
        self, ref: TurnRef, after: int = 0, *, behind: Cursor = BEGINNING, skip: frozenset[str] = frozenset()
    ) -> TurnFeed:
        """Follow a turn that may be under way or over, from its beginning.

        Messages up to position `after` are not read, events up to `behind` are not told. What the log has by now is
        told in full, however much it is.
        """
        feed = self.open(ref, skip=skip)
        feed.position, feed.behind, feed.cursor = after, behind, behind
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
            if feed not in self._repairing and not missed.isdisjoint(_awaited(feed)):
                self._repairing.add(feed)
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
            self._repairing.discard(feed)
            raise
        await self._mind_gap(feed)

    def _mind(self, feed: TurnFeed) -> None:
        if feed.waits_for_gap and feed not in self._repairing:
            self._repairing.add(feed)
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
            self._repairing.discard(feed)

    async def _repair(self, feed: TurnFeed) -> None:
        async def read_on() -> None:
            if feed.ended:
                return
            async for record in read(self.bus, TURN_LOG.name, feed.ref.everything, after=feed.position):
                _hear(feed, record.subject.split(".")[3], record.subject, record.data)
                feed.position = record.seq

        await retry_while_unavailable(read_on, "read the log", deadline=None, facts={"turn": feed.ref.turn_id})


def _awaited(feed: TurnFeed) -> Iterator[str]:
    """The subjects that are looked at: nothing is on them yet, as far as the feed has heard."""
    yield feed.ref.on(TURN_OUTCOME.template)
    if feed.empty:
        yield feed.ref.on(TURN_CLAIM.template)


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
        async with polling(bus, feeds.look):
            yield feeds
    finally:
        remove()
        await bus.unsubscribe(subscription)
