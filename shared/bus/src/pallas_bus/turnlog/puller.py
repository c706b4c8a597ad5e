"""Pulls turns from the queues of a worker's agents into its free slots.

While there are free slots, a pull request waits at the consumer of each agent. After a slot becomes free, the first
pull does not wait, so that turns that are in a queue already come first. A turn that is delivered when there is no free
slot any more is nak'ed at once, and reaches another worker within milliseconds. What a turn costs here does not depend
on the number of agents.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.headers import PULL_ENDED
from pallas_bus.transport.polling import keep_polling
from pallas_bus.transport.streams import NANOSECONDS
from pallas_bus.turnlog.queue import Delivery, consumer_name
from pallas_contracts.catalog import TURN_QUEUE

log = logging.getLogger(__name__)

PULL_EXPIRES = 10.0
"""Seconds for which a pull request waits at the broker."""

_LATE = 2.0
"""Seconds without the due answer after which a pull request counts as lost, as it may be when the broker restarts."""

_REFUSED_PAUSE = 1.0

_NO_WAIT = json.dumps({"batch": 1, "no_wait": True}).encode()


class _Pull(Enum):
    NONE = "none"
    ASKED = "asked"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(slots=True)
class _Source:
    """The consumer of one agent, and the state of the pull request to it."""

    agent: str
    consumer: str
    subscription: Subscription
    inbox: str
    state: _Pull = _Pull.NONE
    number: int = 0
    answer_by: float = 0.0


@dataclass
class TurnPuller:
    """Pulls turns of several agents into the free slots of one worker.

    `room(key)` returns how many more turns of an agent may start now. `take(key, delivery)` starts one; it returns
    False when there is no free slot after all. A pull request waits for `expires` seconds. `_idle` are the agents
    without a pull request, those first that have had none for the longest time; `_asked` counts requests without wait.
    """

    bus: Bus
    room: Callable[[str], int]
    take: Callable[[str, Delivery], bool]
    expires: float = PULL_EXPIRES
    _sources: dict[str, _Source] = field(default_factory=dict[str, _Source])
    _idle: dict[str, None] = field(default_factory=dict[str, None])
    _asked: int = 0
    _stopped: bool = False

    def __post_init__(self) -> None:
        self._wait = json.dumps({"batch": 1, "expires": int(self.expires * NANOSECONDS)}).encode()

    async def start(self) -> None:
        """Repeat pull requests after a reconnect, and those that were lost."""
        self.bus.on_reconnect(self._reconnected)
        self.bus.spawn(keep_polling(self._find_lost_pulls, _LATE / 2))

    async def _find_lost_pulls(self) -> None:
        late = [
            source
            for source in self._sources.values()
            if source.state in (_Pull.ASKED, _Pull.WAITING) and source.answer_by < time.monotonic()
        ]
        for source in late:
            self.bus.rarely.warn(log, "a pull request was lost", agent=source.agent)
            self._set(source, _Pull.NONE)
        if late:
            await self.refill()

    def _set(self, source: _Source, state: _Pull) -> None:
        """Change the state of a pull request."""
        self._asked += (state is _Pull.ASKED) - (source.state is _Pull.ASKED)
        source.state = state
        if state is not _Pull.NONE:
            self._idle.pop(source.agent, None)
        elif source.agent in self._sources:
            self._idle[source.agent] = None

    async def add(self, key: str, team: str, agent: str) -> None:
        """Start to pull the turns of an agent, which `room` and `take` know as `key`."""
        inbox = self.bus.client.new_inbox()

        async def arrived(message: Msg) -> None:
            await self._arrived(source, message)

        subscription = await self.bus.subscribe(f"{inbox}.*", arrived)
        source = _Source(key, consumer_name(team, agent), subscription, inbox)
        self._sources[key] = source
        self._set(source, _Pull.NONE)
        await self.refill()

    def __contains__(self, key: str) -> bool:
        """Whether the turns of this agent are pulled."""
        return key in self._sources

    async def remove(self, key: str) -> None:
        """Stop pulling the turns of an agent; running turns go on."""
        if (source := self._sources.pop(key, None)) is not None:
            self._set(source, _Pull.NONE)
            self._idle.pop(key, None)
            await self.bus.unsubscribe(source.subscription)

    async def stop(self) -> None:
        """Stop pulling turns of all agents."""
        self._stopped = True
        for key in list(self._sources):
            await self.remove(key)

    async def refill(self) -> None:
        """Pull turns for the free slots. Call this whenever a slot becomes free."""
        if self._stopped or not self.bus.connected:
            return
        for key in list(self._idle):
            if key in self._idle and self.room(key) > self._asked:
                await self._pull(self._sources[key], wait=False)

    async def _pull(self, source: _Source, *, wait: bool) -> None:
        self._set(source, _Pull.WAITING if wait else _Pull.ASKED)
        source.number += 1
        source.answer_by = time.monotonic() + _LATE + (self.expires if wait else 0.0)
        await self.bus.send(
            f"$JS.API.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{source.consumer}",
            self._wait if wait else _NO_WAIT,
            reply=f"{source.inbox}.{source.number}",
        )

    async def _arrived(self, source: _Source, message: Msg) -> None:
        if source.agent not in self._sources:
            return
        headers = dict(message.headers or {})
        if (status := headers.get("Status")) is not None:
            # A status message is on the subject of its pull request; a turn is on its own subject.
            if status != "100" and message.subject.rpartition(".")[2] == str(source.number):
                await self._nothing(source, status)
            return
        self._set(source, _Pull.NONE)
        delivery = _delivery(self.bus, message, headers)
        if self._stopped or not self.take(source.agent, delivery):
            await delivery.nak()
        if source.state is _Pull.NONE and not delivery.waiting and self.room(source.agent):
            await self._pull(source, wait=True)
        await self.refill()

    async def _nothing(self, source: _Source, status: str) -> None:
        """The pull ended without a turn: wait for one while there is room, or retry later if the pull was refused."""
        if status not in PULL_ENDED:
            self.bus.rarely.warn(log, "a pull request was refused", agent=source.agent, status=status)
            self._set(source, _Pull.REFUSED)
            self.bus.spawn(self._retry_later(source, source.number))
            return
        self._set(source, _Pull.NONE)
        if self.room(source.agent):
            await self._pull(source, wait=True)
        await self.refill()

    async def _retry_later(self, source: _Source, number: int) -> None:
        await asyncio.sleep(_REFUSED_PAUSE)
        if source.number == number:
            self._set(source, _Pull.NONE)
            await self.refill()

    async def _reconnected(self) -> None:
        for source in self._sources.values():
            self._set(source, _Pull.NONE)
        await self.refill()


def _delivery(bus: Bus, message: Msg, headers: dict[str, str]) -> Delivery:
    delivered, position, _, stored_at, waiting = map(int, message.reply.split(".")[-5:])
    return Delivery(
        bus,
        message.data,
        headers,
        message.reply,
        delivered=delivered,
        waiting=waiting,
        subject=message.subject,
        position=position,
        stored_at=datetime.fromtimestamp(stored_at / NANOSECONDS, UTC),
    )
