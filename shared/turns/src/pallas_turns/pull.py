"""Pulls turns from the queues of a worker's agents into its free slots.

One slot is reserved for agents with no running turn, so that a busy agent cannot starve the others. A worker with a
single agent reserves none.

While there are free slots, a pull request waits at the consumer of each agent. After a slot becomes free, the first
pull does not wait, so that turns that are in a queue already come first. A turn that is delivered when there is no free
slot any more is nak'ed at once, and reaches another worker within milliseconds. What a turn costs here does not depend
on the number of agents.

Where turns are known to be in a queue, as many are pulled at once as there is room for. So a worker that takes over
hundreds of turns does not need a round trip for each of them.
"""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from pallas_bus.connection import Bus, Msg, Subscription
from pallas_bus.errors import keep_polling
from pallas_bus.headers import PULL_ENDED
from pallas_bus.streams import NANOSECONDS
from pallas_contracts.catalog import TURN_QUEUE
from pallas_contracts.errors import PallasError
from pallas_turns.queue import Delivery, consumer_name

log = logging.getLogger(__name__)

PULL_EXPIRES = 10.0
"""Seconds for which a pull request waits at the broker."""

_LATE = 2.0
"""Seconds without the due answer after which a pull request counts as lost, as it may be when the broker restarts."""

_REFUSED_PAUSE = 1.0

_MOST = 32
"""Turns in one pull: if this worker dies before it has claimed them, they wait until the broker delivers them again."""

_SOME_EXPIRES = 0.1
"""Seconds after which a pull for several turns ends that finds none."""

_NO_WAIT = json.dumps({"batch": 1, "no_wait": True}).encode()


@dataclass
class Slots:
    """`total` slots for `agents()` agents. Nothing here waits."""

    total: int
    agents: Callable[[], int] = lambda: 1
    busy: int = 0
    """How many turns run."""
    _running: Counter[str] = field(default_factory=Counter[str])

    def room(self, agent: str) -> int:
        """How many more turns of `agent` may start now."""
        free = self.total - self.busy
        if self._running[agent] and self.total > 1 and self.agents() > 1:
            free -= 1
        return max(0, free)

    def take(self, agent: str) -> bool:
        """Take a slot for a turn of `agent`; False when there is none."""
        if not self.room(agent):
            return False
        self._running[agent] += 1
        self.busy += 1
        return True

    def give(self, agent: str) -> None:
        """Free a slot."""
        if self._running[agent]:
            self._running[agent] -= 1
            self.busy -= 1
        if not self._running[agent]:
            del self._running[agent]


class _Pull(Enum):
    NONE = "none"
    ASKED = "asked"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(slots=True)
class _Source:
    """The consumer of one agent, and the state of the pull request to it.

    `asked` is how many turns a pull without wait may still bring, `queued` how many may be in the queue.
    """

    agent: str
    consumer: str
    subscription: Subscription
    inbox: str
    state: _Pull = _Pull.NONE
    asked: int = 0
    queued: int = 1
    number: int = 0
    answer_by: float = 0.0


@dataclass
class TurnPuller:
    """Pulls turns of several agents into the free slots of one worker.

    `room(key)` returns how many more turns of an agent may start now. `take(key, delivery)` starts one; it returns
    False when there is no free slot after all. `declare(key)` makes the consumer of an agent again, which may have been
    lost, when its pull was refused. A pull request waits for `expires` seconds. `_idle` are the agents without a pull
    request, those first that have had none for the longest time; `_asked` is the sum of what was asked.
    """

    bus: Bus
    room: Callable[[str], int]
    take: Callable[[str, Delivery], bool]
    expires: float = PULL_EXPIRES
    declare: Callable[[str], Awaitable[None]] | None = None
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

    def _set(self, source: _Source, state: _Pull, asked: int = 0) -> None:
        """Change the state of a pull request."""
        self._asked += asked - source.asked
        source.state, source.asked = state, asked
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
        self._sources[source.agent] = source
        self._set(source, _Pull.NONE)
        await self.refill()

    def __contains__(self, key: str) -> bool:
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
        if self._stopped or not self.bus.client.is_connected:
            return
        for key in list(self._idle):
            if key in self._idle and (free := self.room(key) - self._asked) > 0:
                source = self._sources[key]
                await self._pull(source, min(max(1, source.queued), max(1, free // len(self._idle)), _MOST))

    async def _pull(self, source: _Source, asked: int) -> None:
        """Ask for so many turns that are in the queue; 0: wait for one."""
        self._set(source, _Pull.ASKED if asked else _Pull.WAITING, asked)
        source.number += 1
        source.answer_by = time.monotonic() + _LATE + (0.0 if asked else self.expires)
        await self.bus.send(
            f"$JS.API.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{source.consumer}",
            _some(asked) if asked > 1 else _NO_WAIT if asked else self._wait,
            reply=f"{source.inbox}.{source.number}",
        )

    async def _arrived(self, source: _Source, message: Msg) -> None:
        headers, known = dict(message.headers or {}), self._sources.get(source.agent) is source
        if (status := headers.get("Status")) is not None:
            # A status message is on the subject of its pull request; a turn is on its own subject.
            if known and status != "100" and message.subject.rpartition(".")[2] == str(source.number):
                await self._nothing(source, status)
            return
        delivery = _delivery(self.bus, message, headers)
        if not known:
            await delivery.nak()
            return
        left = max(0, source.asked - 1)
        self._set(source, _Pull.ASKED if left else _Pull.NONE, left)
        # Turns that are delivered again do not count as waiting, and often come together.
        source.queued = delivery.waiting if delivery.delivered == 1 else _MOST
        if self._stopped or not self.take(source.agent, delivery):
            await delivery.nak()
        if source.state is _Pull.NONE and not source.queued and self.room(source.agent):
            await self._pull(source, 0)
        await self.refill()

    async def _nothing(self, source: _Source, status: str) -> None:
        """The pull ended without a turn: wait for one while there is room, or retry later if the pull was refused."""
        if status not in PULL_ENDED:
            self.bus.rarely.warn(log, "a pull request was refused", agent=source.agent, status=status)
            self._set(source, _Pull.REFUSED)
            self.bus.spawn(self._retry_later(source, source.number))
            return
        self._set(source, _Pull.NONE)
        source.queued = 0
        if self.room(source.agent):
            await self._pull(source, 0)
        await self.refill()

    async def _retry_later(self, source: _Source, number: int) -> None:
        await asyncio.sleep(_REFUSED_PAUSE)
        if self.declare is not None:
            with suppress(PallasError):  # the next pull is refused, too
                await self.declare(source.agent)
        if source.number == number:
            self._set(source, _Pull.NONE)
            await self.refill()

    async def _reconnected(self) -> None:
        for source in self._sources.values():
            self._set(source, _Pull.NONE)
        await self.refill()


def _some(asked: int) -> bytes:
    """The body of a pull that ends as soon as it has brought what there is, or after a moment without anything."""
    return json.dumps({"batch": asked, "no_wait": True, "expires": int(_SOME_EXPIRES * NANOSECONDS)}).encode()


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
