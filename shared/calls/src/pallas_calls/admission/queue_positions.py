"""How many turns wait, whose they are, and how many are in front of one: from the broker and the turns put in here.

The broker does not say where a message stands, only how many wait. Of this gateway's own turns the order is known; all
that other replicas have put in count as being in front, because nothing here knows better.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.queue import QueueState, queue_state, turns_by_caller
from pallas_calls.admission.own_turns import OwnTurns
from pallas_calls.admission.queue_pace import QueuePace
from pallas_calls.admission.shared_answers import CachedAnswers
from pallas_contracts.errors import PallasError

_PATIENCE = 0.03

type Queue = tuple[str, str]
"""Team and agent."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a queue, None when the broker did not tell it; `others` wait in it through other gateways."""

    state: QueueState | None = None
    others: int = 0

    @property
    def delivered(self) -> int:
        """The position of the last turn that is known to have been delivered."""
        return self.state.delivered_position if self.state else 0


@dataclass(frozen=True, slots=True)
class Full:
    """What is used up: the queue, or its caller's part of it. `most` turns may wait there."""

    limit: Literal["queue", "caller"]
    most: int
    retry_after_ms: int


@dataclass
class QueuePositions:
    """Asks the broker at most twice a second per agent, however many turns wait."""

    bus: Bus
    _own: dict[Queue, OwnTurns] = field(default_factory=lambda: defaultdict[Queue, OwnTurns](OwnTurns))
    _paces: dict[Queue, QueuePace] = field(default_factory=lambda: defaultdict[Queue, QueuePace](QueuePace))

    def __post_init__(self) -> None:
        self._states = CachedAnswers(self._ask_state, self.bus.spawn)
        self._callers = CachedAnswers(self._ask_callers, self.bus.spawn)

    async def full(self, team: str, agent: str, caller: str, max_queued: int) -> Full | None:
        """Which limit one more turn of `caller` would break, as far as that is known in a few hundredths of a second.

        Counted are turns that wait: `max_queued` in all, half of them (at least one) of one caller. What this gateway
        has put in is counted exactly, from `entering` to its claim; what others have put in is half a second old at
        most. The broker cannot tell which of a caller's turns at other gateways already run: they count as waiting, as
        long as that many do wait there.
        """
        queue, part = (team, agent), max(1, max_queued // 2)
        known, elsewhere = _Known(), 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                known = await self._states.get(queue)
                if known.others and self._peek(queue).of_caller(caller, known.delivered) + known.others >= part:
                    elsewhere = min(known.others, (await self._callers.get(queue))[caller])
        own, pace = self._peek(queue), self._paces[queue]
        waiting = known.others + own.behind(known.delivered)
        its = elsewhere + own.of_caller(caller, known.delivered)
        if waiting >= max_queued:
            return Full("queue", max_queued, pace.retry_after_ms(waiting - max_queued + 1))
        if its >= part:
            return Full("caller", part, pace.retry_after_ms((its - part + 1) * waiting / its))
        return None

    @contextmanager
    def entering(self, team: str, agent: str, caller: str) -> Generator[None]:
        """Count a turn that is put into the queue inside the block."""
        self._own[team, agent].enter(caller, 1)
        try:
            yield
        finally:
            self._own[team, agent].enter(caller, -1)
            self._forget((team, agent))

    @contextmanager
    def waiting(self, team: str, agent: str, caller: str, position: int) -> Generator["QueuePosition"]:
        """The position of a turn whose message is stored at `position`, until it is taken or the block ends."""
        own = self._own[team, agent]
        own.follow(caller, position)
        waiting = QueuePosition(self, (team, agent), caller, position)
        try:
            yield waiting
        finally:
            waiting.leave()
            own.unfollow(caller, position)
            self._forget((team, agent))

    def taken(self, queue: Queue, caller: str, position: int) -> None:
        """The turn at `position` waits no more."""
        self._own[queue].taken(caller, position)

    async def ahead(self, queue: Queue, position: int) -> int | None:
        """How many turns wait in front of `position`; None when it waits no more or the broker does not say."""
        known = await self._states.get(queue)
        if known.state is None or known.delivered >= position:
            return None
        return self._peek(queue).between(known.delivered, position) + known.others

    async def _ask_state(self, queue: Queue) -> _Known:
        """Read the state. A turn that enters or leaves meanwhile counts as this gateway's: it may be in there."""
        own = self._peek(queue)
        entering, waiting = own.entering, set(own.waiting)
        try:
            state = await queue_state(self.bus, *queue)
        except PallasError:
            return _Known()
        self._paces[queue].read(state.delivered)
        own = self._peek(queue)
        mine = sum(position > state.delivered_position for position in waiting.union(own.waiting))
        return _Known(state, max(0, state.waiting - mine - max(entering, own.entering)))

    async def _ask_callers(self, queue: Queue) -> Counter[str]:
        """Read how many turns each caller has in the queue, waiting or running, besides those followed here."""
        before = {caller: (its.entering, set(its.followed)) for caller, its in self._peek(queue).callers.items()}
        try:
            found = Counter(await turns_by_caller(self.bus, *queue))
        except PallasError:
            return Counter()
        after = self._peek(queue).callers
        for caller in before.keys() | after.keys():
            entering, followed = before.get(caller, (0, set[int]()))
            if (its := after.get(caller)) is not None:
                entering, followed = max(entering, its.entering), followed.union(its.followed)
            found[caller] = max(0, found[caller] - entering - len(followed))
        return found

    def _peek(self, queue: Queue) -> OwnTurns:
        return self._own.get(queue) or OwnTurns()

    def _forget(self, queue: Queue) -> None:
        if not self._own[queue].callers:
            del self._own[queue]


@dataclass
class QueuePosition:
    """The position of one turn. It never moves back, though other gateways may put in turns behind it."""

    positions: QueuePositions
    queue: Queue
    caller: str
    position: int
    _last: int | None = None
    _left: bool = False

    async def ahead(self) -> int | None:
        """How many turns are still in front of this one; None when it is not known."""
        ahead = await self.positions.ahead(self.queue, self.position)
        if ahead is not None:
            self._last = ahead if self._last is None else min(self._last, ahead)
            return self._last
        return None

    def leave(self) -> None:
        """The turn waits no more: it is taken, or nobody follows it. Once is enough."""
        if not self._left:
            self._left = True
            self.positions.taken(self.queue, self.caller, self.position)
