"""Whether the streams that a process writes can store messages: they need a leader, and room on its disk.

A cluster that has lost its quorum keeps its connections, so these do not show it. A leader that is left alone goes on
answering for 20 s before it gives up, and so says when it has last heard its replicas. A service of some teams may not
ask that: it publishes a message that every leader refuses, which only a stream with a leader answers.

A leader whose disk was full stores nothing until it is started again, and answers all the same. So a process that makes
turns stores a message in their log now and then, which expires at once.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pallas_bus.connection import Bus
from pallas_bus.headers import time_to_live
from pallas_bus.snapshots import newest_position
from pallas_bus.streams import NANOSECONDS, reads_scoped, stream_name
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
"""The turn, agent and team of that message."""

_TIMEOUT = 2.0
_SILENT = 5.0
"""Seconds after which a replica counts as lost. Leaders hear from each about once a second."""


@dataclass
class Leaders:
    """The streams of one process by name, each with the subject of refused messages, or None where it may ask.

    Made by `watch_leaders`. `lost` are the streams that had no leader, or did not store, at the last two questions, and
    `full` those of them that have a leader.
    """

    bus: Bus
    streams: Mapping[str, str | None]
    lost: frozenset[str] = frozenset()
    full: frozenset[str] = frozenset()
    _suspected: frozenset[str] = field(default=frozenset())
    _asked: int = 0

    def missing(self) -> str | None:
        """What is wrong, for `/readyz`; None if every stream can store messages."""
        said = {"no leader": self.lost - self.full, "nothing can be stored": self.lost & self.full}
        return "; ".join(f"{what}: {', '.join(sorted(names))}" for what, names in said.items() if names) or None

    async def keep_asking(self) -> None:
        """Ask for ever. While the connection is broken, nothing is asked and nothing changes."""
        while True:
            if self.bus.connected:
                await self.ask()
            await asyncio.sleep(AGAIN if self._suspected else EVERY)

    async def ask(self) -> None:
        """Ask for the leader of each stream once."""
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
    """Keep asking for the leaders of these streams. A service of some teams names one that it serves."""
    leaders = Leaders(bus, {stream_name(thing): _refused_subject(bus.service, thing, team) for thing in things})
    task = bus.spawn(leaders.keep_asking())
    try:
        yield leaders
    finally:
        task.cancel()


def _refused_subject(service: str, thing: Stream | Bucket[Any], team: str | None) -> str | None:
    """A subject of the stream on which the service may publish; None where it may ask about the stream itself."""
    if not reads_scoped(service, stream_name(thing)):
        return None
    kinds: list[Contract[Any] | Blob] = [*CONTRACTS, *BLOBS]
    template = next(kind.template for kind in kinds if kind.stream is thing and service in kind.owners)
    ids = dict.fromkeys(template.fields, "leader")
    return template.subject(**(ids if team is None else ids | {"team": team}))
