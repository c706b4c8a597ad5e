"""How many turns wait, how many of them are of one caller, and how many are in front of a turn.

The broker knows how many messages wait, but not the position of one of them. The order of this process's own turns is
known; all turns that other processes have submitted count as being in front of them.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.queue import QueueState, queue_state, turns_by_caller
from pallas_calls.admission.cached_answers import CachedAnswers
from pallas_calls.admission.own_turns import OwnTurns
from pallas_calls.admission.queue_pace import QueuePace
from pallas_contracts.errors import PallasError

_READ_TIMEOUT = 0.03

type Queue = tuple[str, str]
"""The team and agent of a queue."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a queue, None when it could not be read; `others` are the waiting turns of other processes."""

    state: QueueState | None = None
    others: int = 0

    @property
    def delivered(self) -> int:
        """The position of the last turn that is known to be delivered."""
        return self.state.delivered_position if self.state else 0


@dataclass(frozen=True, slots=True)
class Full:
    """The limit that is reached: of the queue, or of one caller in it. `most` turns may wait."""

    limit: Literal["queue", "caller"]
    most: int
    retry_after_ms: int


@dataclass
class QueuePositions:
    """Reads the broker at most twice a second per agent, however many turns wait."""

    bus: Bus
    _own: dict[Queue, OwnTurns] = field(default_factory=lambda: defaultdict[Queue, OwnTurns](OwnTurns))
    _paces: dict[Queue, QueuePace] = field(default_factory=lambda: defaultdict[Queue, QueuePace](QueuePace))

    def __post_init__(self) -> None:
        self._states = CachedAnswers(self._ask_state, self.bus.spawn)
        self._callers = CachedAnswers(self._ask_callers, self.bus.spawn)

    async def full(self, team: str, agent: str, caller: str, max_queued: int) -> Full | None:
        """The limit that one more turn of `caller` would break, or None.

        `max_queued` turns may wait in all, half of them (at least one) of one caller. This process's own turns are
        counted exactly, from `entering` to their claim; the count of others is at most half a second old, and is left
        out when the broker does not answer within `_READ_TIMEOUT` seconds. The broker does not know which of a caller's
        turns at other processes already run: they count as waiting while that many wait there.
        """
        queue, part = (team, agent), max(1, max_queued // 2)
        known, elsewhere = _Known(), 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_READ_TIMEOUT):
                known = await self._states.get(queue)
                if known.others and self._peek(queue).of_caller(caller, known.delivered) + known.others >= part:
                    elsewhere = min(known.others, (await self._callers.get(queue))[caller])
        own, pace = self._peek(queue), self._paces[queue]
        waiting = known.others + own.behind(known.delivered)
        of_caller = elsewhere + own.of_caller(caller, known.delivered)
        if waiting >= max_queued:
            return Full("queue", max_queued, pace.retry_after_ms(waiting - max_queued + 1))
        if of_caller >= part:
            return Full("caller", part, pace.retry_after_ms((of_caller - part + 1) * waiting / of_caller))
        return None

    @contextmanager
    def entering(self, team: str, agent: str, caller: str) -> Generator[None]:
        """Count a turn that is submitted inside the block."""
        queue = team, agent
        self._own[queue].enter(caller, 1)
        try:
            yield
        finally:
            self._own[queue].enter(caller, -1)
            self._forget(queue)

    def waiting(self, team: str, agent: str, caller: str, position: int) -> "QueuePosition":
        """Count a turn whose message is at `position` as waiting, until it is claimed or the block ends."""
        return QueuePosition(self, (team, agent), caller, position)

    def follow(self, queue: Queue, caller: str, position: int) -> None:
        """Count the turn at `position` as waiting."""
        self._own[queue].follow(caller, position)

    def taken(self, queue: Queue, caller: str, position: int) -> None:
        """The turn at `position` does not wait any more."""
        self._own[queue].taken(caller, position)

    def unfollow(self, queue: Queue, caller: str, position: int) -> None:
        """Nobody follows the turn at `position` here any more."""
        self._own[queue].unfollow(caller, position)
        self._forget(queue)

    async def ahead(self, queue: Queue, position: int) -> int | None:
        """How many turns wait in front of `position`; None when it does not wait or the broker does not answer."""
        known = await self._states.get(queue)
        if known.state is None or known.delivered >= position:
            return None
        return self._peek(queue).between(known.delivered, position) + known.others

    async def _ask_state(self, queue: Queue) -> _Known:
        """Read the state. A turn of this process that enters or leaves meanwhile counts as included in it."""
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
        before = {caller: (turns.entering, set(turns.followed)) for caller, turns in self._peek(queue).callers.items()}
        try:
            found = Counter(await turns_by_caller(self.bus, *queue))
        except PallasError:
            return Counter()
        after = self._peek(queue).callers
        for caller in before.keys() | after.keys():
            entering, followed = before.get(caller, (0, set[int]()))
            if (turns := after.get(caller)) is not None:
                entering, followed = max(entering, turns.entering), followed.union(turns.followed)
            found[caller] = max(0, found[caller] - entering - len(followed))
        return found

    def _peek(self, queue: Queue) -> OwnTurns:
        return self._own.get(queue) or OwnTurns()

    def _forget(self, queue: Queue) -> None:
        if not self._own[queue].callers:
            del self._own[queue]


@dataclass(slots=True)
class QueuePosition:
    """The position of one turn, inside a block. The number never grows, though other processes submit turns behind it.

    A waiting call holds it, so it is smaller than a generator.
    """

    positions: QueuePositions
    queue: Queue
    caller: str
    position: int
    _last: int | None = None
    _left: bool = False

    def __enter__(self) -> "QueuePosition":
        self.positions.follow(self.queue, self.caller, self.position)
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self.positions.unfollow(self.queue, self.caller, self.position)

    async def ahead(self) -> int | None:
        """How many turns are still in front of this one; None when it is not known."""
        ahead = await self.positions.ahead(self.queue, self.position)
        if ahead is not None:
            self._last = ahead if self._last is None else min(self._last, ahead)
            return self._last
        return None

    def leave(self) -> None:
        """The turn is claimed, or nobody follows it here any more. May be called again."""
        if not self._left:
            self._left = True
            self.positions.taken(self.queue, self.caller, self.position)
