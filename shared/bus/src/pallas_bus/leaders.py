"""Whether the streams that a process writes can store messages: they need a leader, and room on its disk.

A cluster that has lost its quorum keeps its connections, so these do not show it. A leader that is left alone goes on
answering for 20 s before it gives up, and so says when it has last heard its replicas. A service of some teams may not
ask that: it publishes a message that every leader refuses, which only a stream with a leader answers.

A leader whose disk was full stores nothing until it is started again, and answers all the same. So a process that makes
turns stores a message in their log now and then, which expires at once.

A broker may also have lost a stream or a bucket. Its owner makes it again, as it declared it, and never changes one
that is there: several replicas may try at a time. If one cannot be made, none is tried again on the same connection. A
broker that was started with another key cannot read its files, and removes them when it is told to make their stream.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from pallas_bus.connection import Bus
from pallas_bus.headers import time_to_live
from pallas_bus.snapshots import newest_position
from pallas_bus.streams import DERIVED, NAME_IN_USE, NANOSECONDS, reads_scoped, stream_name, stream_names
from pallas_contracts.catalog import BLOBS, CONTRACTS, TURN_LOG, WRITE_TEST
from pallas_contracts.contract import Blob, Bucket, Contract, Stream
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.turns import WriteTest

log = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between two questions."""

AGAIN = 1.0
"""Seconds until the next question when a stream had no leader. It counts as lost after two: elections take a moment."""

WRITE_EVERY = 5
"""Questions after which a message is stored; also while the last one was not."""

UNTIL_MADE = EVERY + 0.5
"""Seconds until a missing stream is made again: all processes that use it have noticed."""

NO_PEERS = 10005
"""The error when too few servers of the cluster are there."""

_TIMEOUT = 2.0
_SILENT = 5.0
"""Seconds after which a replica counts as lost. Leaders hear from each about once a second."""


@dataclass
class Leaders:
    """The streams of one process by name, each with the subject of refused messages, or None where it may ask.

    Made by `watch_leaders`. `lost` are the streams that had no leader, or did not store, at the last two questions, and
    `full` those of them that have a leader. `gone` are those that the broker did not have at the last two, of all that
    the process uses and has seen there.
    """

    bus: Bus
    streams: Mapping[str, str | None]
    lost: frozenset[str] = frozenset()
    full: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    _absent: dict[str, float] = field(default_factory=dict[str, float])
    _refused_at: int | None = None
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _suspected: frozenset[str] = field(default=frozenset())
    _asked: int = 0

    @property
    def refused(self) -> bool:
        """Whether the broker could not make a stream, on the connection that there is."""
        return self._refused_at == self.bus.breaks

    def missing(self) -> str | None:
        """What is wrong, for `/readyz`; None if every stream is there and can store messages."""
        lost = self.lost - self.gone
        said = {"missing": self.gone, "no leader": lost - self.full, "nothing can be stored": lost & self.full}
        return "; ".join(f"{what}: {', '.join(sorted(names))}" for what, names in said.items() if names) or None

    async def keep_asking(self) -> None:
        """Ask for ever. While the connection is broken, nothing is asked and nothing changes."""
        while True:
            self._wake.clear()
            if self.bus.connected:
                await self.ask()
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN if self._suspected or self._absent else EVERY):
                    await self._wake.wait()

    async def wake(self) -> None:
        """Ask now: the broker may be another one, or started again."""
        self._wake.set()

    async def ask(self) -> None:
        """Ask once which streams there are, make those again that are missing, and ask for the leader of each."""
        await self._look()
        answers = await asyncio.gather(*(self._is_led(name, subject) for name, subject in self.streams.items()))
        led = [name for name, is_led in zip(self.streams, answers, strict=True) if is_led]
        writes = not self._asked % WRITE_EVERY or self._suspected
        stored = await asyncio.gather(*(self._stores(name) for name in led)) if writes else ()
        self._asked += 1
        self.full = frozenset(name for name, stores in zip(led, stored, strict=False) if not stores)
        without = self.full | (self.streams.keys() - led)
        before, self.lost, self._suspected = self.lost, without & self._suspected, without
        if self.lost - before:
            event = "streams store nothing" if self.lost <= self.full else "streams have no leader"
            log.warning(event, extra={"streams": sorted(self.lost)})
        elif before and not self.lost:
            log.info("every stream has a leader again", extra={"streams": sorted(before)})

    async def _look(self) -> None:
        try:
            there = await stream_names(self.bus)
        except PallasError:
            return
        now, before = time.monotonic(), self._absent
        self.bus.seen |= self.bus.used.keys() & there
        self._absent = {name: before.get(name, now) for name in self.bus.seen - there}
        self.bus.missed |= self._absent
        gone, self.gone = self.gone, frozenset(self._absent.keys() & before.keys())
        if self.gone - gone:
            log.warning("the broker has lost streams", extra={"streams": sorted(self.gone)})
        if back := before.keys() - self._absent.keys():
            log.info("streams are there again", extra={"streams": sorted(back)})
            self.bus.made_again(back)
        if self.refused:
            return
        # What is made again from elsewhere comes first: it may show that nothing can be made.
        for name in sorted(self.gone, key=lambda name: (name not in DERIVED, name)):
            config = self.bus.used[name]
            if config is not None and now - self._absent[name] > UNTIL_MADE and not await self._make(name, config):
                return

    async def _make(self, name: str, config: dict[str, Any]) -> bool:
        """Make a stream again; False if none is to be made now."""
        try:
            await self.bus.api(f"STREAM.CREATE.{name}", config)
        except Unavailable:
            return False
        except PallasError as error:
            code = error.facts.get("err_code")
            if code == NO_PEERS:  # servers of the cluster are away
                return False
            if code != NAME_IN_USE:  # another replica has made it
                self._refused_at = self.bus.breaks
                log.error("a lost stream cannot be made", extra={"stream": name, "reason": error.message})
                return False
        log.warning("a lost stream was made again", extra={"stream": name})
        # Now and not with the next look: until its entries are written, processes that start find none.
        del self._absent[name]
        self.gone -= {name}
        self.bus.made_again({name})
        return True

    async def _stores(self, stream: str) -> bool:
        """Whether a message can be stored. Only the log is tried, and only by those who make turns."""
        if stream != TURN_LOG.name or self.bus.service not in WRITE_TEST.owners:
            return True
        subject = WRITE_TEST.template.subject(instance=self.bus.instance)
        test = WriteTest(instance=self.bus.instance)
        try:
            await self.bus.put(subject, test.model_dump_json().encode(), time_to_live(1), timeout=_TIMEOUT)
        except Unavailable:
            return False
        return True

    async def _is_led(self, stream: str, subject: str | None) -> bool:
        try:
            async with asyncio.timeout(_TIMEOUT):
                if subject is not None:
                    await newest_position(self.bus, subject)
                    return True
                return is_led((await self.bus.api(f"STREAM.INFO.{stream}", {})).get("cluster"))
        except (PallasError, TimeoutError):
            return False


def is_led(cluster: Mapping[str, Any] | None) -> bool:
    """Whether a stream can store messages, from what its leader says about its replicas; None: there is no cluster."""
    if cluster is None:
        return True
    replicas: list[dict[str, Any]] = cluster.get("replicas") or []
    heard = sum(is_heard(replica) for replica in replicas)
    return bool(cluster.get("leader")) and 2 * (1 + heard) > 1 + len(replicas)


def is_heard(replica: Mapping[str, Any]) -> bool:
    """Whether a leader has heard a replica a moment ago. `active` is 0 if it never has."""
    active = int(replica["active"])
    return active < _SILENT * NANOSECONDS if active else bool(replica.get("current"))


@asynccontextmanager
async def watch_leaders(bus: Bus, *things: Stream | Bucket[Any], team: str | None = None) -> AsyncGenerator[Leaders]:
    """Keep asking for the leaders of these streams, and for all that the process uses.

    A service of some teams names one that it serves.
    """
    leaders = Leaders(bus, {stream_name(thing): _refused_subject(bus.service, thing, team) for thing in things})
    remove = bus.on_reconnect(leaders.wake)
    task = bus.spawn(leaders.keep_asking())
    try:
        yield leaders
    finally:
        remove()
        task.cancel()


def _refused_subject(service: str, thing: Stream | Bucket[Any], team: str | None) -> str | None:
    """A subject of the stream on which the service may publish; None where it may ask about the stream itself."""
    if not reads_scoped(service, stream_name(thing)):
        return None
    kinds: list[Contract[Any] | Blob] = [*CONTRACTS, *BLOBS]
    template = next(kind.template for kind in kinds if kind.stream is thing and service in kind.owners)
    ids = dict.fromkeys(template.fields, "leader")
    return template.subject(**(ids if team is None else ids | {"team": team}))
