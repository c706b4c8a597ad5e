"""How many turns wait, how many of them are of one caller, how many are in front of a turn, and how fast they leave.

The broker knows how many messages wait, but not the position of one of them. The order of this process's own turns is
known; all turns that other processes have submitted count as being in front of them.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from pallas_bus.connection import Bus
from pallas_contracts.errors import PallasError
from pallas_turns.queue import QueueState, queue_state, turns_by_caller

SHARED_FOR = 0.5
"""Seconds for which an answer of the broker is used."""

_READ_TIMEOUT = 0.03

_AT_LEAST_MS = 250
_AT_MOST_MS = 30_000
_NOT_KNOWN_MS = 1000
"""Milliseconds after which to retry: bounds of the estimate, and the value without one."""

type _Agent = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Full:
    """The limit that is reached: of the queue, or of one caller in it. `most` turns may wait."""

    limit: Literal["queue", "caller"]
    most: int
    retry_after_ms: int


@dataclass
class QueuePace:
    """Turns that leave a queue per second, between the last two readings that saw it move."""

    clock: Callable[[], float] = time.monotonic
    _delivered: int | None = None
    _at: float = 0.0
    _rate: float | None = None

    def read(self, delivered: int) -> None:
        """Record a reading: how many turns of the queue have been delivered so far."""
        now = self.clock()
        if self._delivered is None or delivered < self._delivered or now - self._at > _AT_MOST_MS / 1000:
            self._delivered, self._at, self._rate = delivered, now, None
        elif delivered > self._delivered and now > self._at:
            self._rate = (delivered - self._delivered) / (now - self._at)
            self._delivered, self._at = delivered, now

    def retry_after_ms(self, turns: float) -> int:
        """Milliseconds until so many turns will have left. A stalled queue is expected to stall as long again."""
        if self._rate is None:
            return _NOT_KNOWN_MS
        seconds = max(turns / self._rate, self.clock() - self._at)
        return round(min(max(seconds * 1000, _AT_LEAST_MS), _AT_MOST_MS))


@dataclass(slots=True)
class _Turns:
    """Turns of this process: how many are being submitted, those that wait, and who follows which.

    A turn is known by the position of its message in the queue's stream; `waiting` is sorted.
    """

    entering: int = 0
    waiting: list[int] = field(default_factory=list[int])
    followed: Counter[int] = field(default_factory=Counter[int])

    def behind(self, delivered: int) -> int:
        """How many wait or are being submitted, when the turn at `delivered` was delivered last."""
        return self.entering + len(self.waiting) - bisect_right(self.waiting, delivered)


@dataclass(slots=True)
class _Queue:
    """One agent's queue: its pace, and the turns of this process in it, all of them and those of each caller."""

    pace: QueuePace = field(default_factory=QueuePace)
    own: _Turns = field(default_factory=_Turns)
    callers: dict[str, _Turns] = field(default_factory=lambda: defaultdict[str, _Turns](_Turns))

    def of_caller(self, caller: str, delivered: int) -> int:
        """How many turns of a caller wait or are being submitted."""
        return self.callers[caller].behind(delivered) if caller in self.callers else 0

    def enter(self, caller: str, change: int) -> None:
        """One turn more (1) or less (-1) is being submitted."""
        of_caller = self.callers[caller]
        self.own.entering += change
        of_caller.entering += change
        if not of_caller.entering and not of_caller.followed:
            del self.callers[caller]

    def follow(self, caller: str, position: int) -> None:
        """The turn waits. Several callers may follow it; it is counted as waiting once."""
        for turns in (self.own, self.callers[caller]):
            if not turns.followed[position]:
                insort(turns.waiting, position)
            turns.followed[position] += 1

    def taken(self, caller: str, position: int) -> None:
        """The turn does not wait any more."""
        for turns in (self.own, self.callers[caller]):
            at = bisect_left(turns.waiting, position)
            if turns.waiting[at : at + 1] == [position]:
                del turns.waiting[at]

    def unfollow(self, caller: str, position: int) -> None:
        """One caller less follows the turn."""
        for turns in (self.own, self.callers[caller]):
            turns.followed[position] -= 1
            if not turns.followed[position]:
                del turns.followed[position]
        if not self.callers[caller].entering and not self.callers[caller].followed:
            del self.callers[caller]


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a queue, None when it could not be read; `others` are the waiting turns of other processes."""

    state: QueueState | None = None
    others: int = 0
    delivered: int = 0
    """The position of the last turn that is known to be delivered."""


@dataclass
class _Shared[V]:
    """Answers about queues, used for `SHARED_FOR` seconds. Whoever needs one meanwhile waits for the same question.

    `ask` must not fail; `spawn` runs it to its end even when those who wait for it are cancelled.
    """

    ask: Callable[[_Agent], Awaitable[V]]
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    _known: dict[_Agent, tuple[float, V]] = field(default_factory=dict["_Agent", tuple[float, V]])
    _asking: dict[_Agent, asyncio.Task[None]] = field(default_factory=dict["_Agent", "asyncio.Task[None]"])

    async def get(self, agent: _Agent) -> V:
        known = self._known.get(agent)
        if known is not None and time.monotonic() - known[0] < SHARED_FOR:
            return known[1]
        if (asking := self._asking.get(agent)) is None:
            asking = self._asking[agent] = self.spawn(self._ask(agent))
        await asyncio.shield(asking)
        return self._known[agent][1]

    async def _ask(self, agent: _Agent) -> None:
        try:
            answer = await self.ask(agent)
            self._known[agent] = (time.monotonic(), answer)
        finally:
            del self._asking[agent]


@dataclass
class QueuePositions:
    """Reads the broker at most twice a second per agent, however many turns wait."""

    bus: Bus
    _queues: dict[_Agent, _Queue] = field(default_factory=lambda: defaultdict["_Agent", _Queue](_Queue))

    def __post_init__(self) -> None:
        self._states = _Shared(self._ask_state, self.bus.spawn)
        self._callers = _Shared(self._ask_callers, self.bus.spawn)

    async def full(self, team: str, agent: str, caller: str, max_queued: int) -> Full | None:
        """The limit that one more turn of `caller` would break, or None.

        `max_queued` turns may wait in all, half of them (at least one) of one caller. This process's own turns are
        counted exactly, from `entering` to their claim; the count of others is at most half a second old, and is left
        out when the broker does not answer within `_READ_TIMEOUT` seconds. The broker does not know which of a caller's
        turns at other processes already run: they count as waiting while that many wait there.
        """
        queue, part = self._queues[team, agent], max(1, max_queued // 2)
        known, elsewhere = _Known(), 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_READ_TIMEOUT):
                known = await self._states.get((team, agent))
                if known.others and queue.of_caller(caller, known.delivered) + known.others >= part:
                    elsewhere = min(known.others, (await self._callers.get((team, agent)))[caller])
        waiting = known.others + queue.own.behind(known.delivered)
        of_caller = elsewhere + queue.of_caller(caller, known.delivered)
        if waiting >= max_queued:
            return Full("queue", max_queued, queue.pace.retry_after_ms(waiting - max_queued + 1))
        if of_caller >= part:
            return Full("caller", part, queue.pace.retry_after_ms((of_caller - part + 1) * waiting / of_caller))
        return None

    @contextmanager
    def entering(self, team: str, agent: str, caller: str) -> Generator[None]:
        """Count a turn that is submitted inside the block."""
        queue = self._queues[team, agent]
        queue.enter(caller, 1)
        try:
            yield
        finally:
            queue.enter(caller, -1)

    def waiting(self, team: str, agent: str, caller: str, position: int) -> "QueuePosition":
        """Count a turn whose message is at `position` as waiting, until it is claimed or the block ends."""
        return QueuePosition(self, self._queues[team, agent], (team, agent), caller, position)

    async def ahead(self, agent: _Agent, position: int) -> int | None:
        """How many turns wait in front of `position`; None when it does not wait or the broker does not answer."""
        known = await self._states.get(agent)
        if known.state is None or known.delivered >= position:
            return None
        waiting = self._queues[agent].own.waiting
        return bisect_left(waiting, position) - bisect_right(waiting, known.delivered) + known.others

    async def _ask_state(self, agent: _Agent) -> _Known:
        """Read the state. A turn of this process that enters or leaves meanwhile counts as included in it."""
        queue = self._queues[agent]
        entering, waiting = queue.own.entering, set(queue.own.waiting)
        try:
            state = await queue_state(self.bus, *agent)
        except PallasError:
            return _Known()
        queue.pace.read(state.delivered)
        mine = sum(position > state.delivered_position for position in waiting.union(queue.own.waiting))
        others = max(0, state.waiting - mine - max(entering, queue.own.entering))
        return _Known(state, others, state.delivered_position)

    async def _ask_callers(self, agent: _Agent) -> Counter[str]:
        """Read how many turns each caller has in the queue, waiting or running, besides those followed here."""
        after = self._queues[agent].callers
        before = {caller: (turns.entering, set(turns.followed)) for caller, turns in after.items()}
        try:
            found = Counter(await turns_by_caller(self.bus, *agent))
        except PallasError:
            return Counter()
        for caller in before.keys() | after.keys():
            entering, followed = before.get(caller, (0, set[int]()))
            if (turns := after.get(caller)) is not None:
                entering, followed = max(entering, turns.entering), followed.union(turns.followed)
            found[caller] = max(0, found[caller] - entering - len(followed))
        return found


@dataclass(slots=True)
class QueuePosition:
    """The position of one turn, inside a block. The number never grows, though other processes submit turns behind it.

    A waiting call holds it, so it is smaller than a generator.
    """

    positions: QueuePositions
    queue: _Queue
    agent: _Agent
    caller: str
    position: int
    _last: int | None = None
    _left: bool = False

    def __enter__(self) -> "QueuePosition":
        self.queue.follow(self.caller, self.position)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._left:
            self.leave()
        self.queue.unfollow(self.caller, self.position)

    async def ahead(self) -> int | None:
        """How many turns are still in front of this one; None when it is not known."""
        ahead = await self.positions.ahead(self.agent, self.position)
        if ahead is not None:
            self._last = ahead = ahead if self._last is None else min(self._last, ahead)
        return ahead

    def leave(self) -> None:
        """The turn is claimed, or nobody follows it here any more. May be called again."""
        if not self._left:
            self._left = True
            self.queue.taken(self.caller, self.position)
