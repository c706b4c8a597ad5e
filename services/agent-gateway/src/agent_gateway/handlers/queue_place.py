"""How many turns wait, and how many in front of one: from an agent's consumer and the turns this gateway has put in.

The broker does not say where a message stands, only how many wait. Of this gateway's own turns the order is known; all
that other replicas have put in count as being in front, because nothing here knows better.
"""

import asyncio
import time
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pallas_bus.connection import Bus
from pallas_bus.turn_queue import QueueState, queue_state
from pallas_contracts.errors import PallasError

SHARED_FOR = 0.5
"""Seconds for which a state, or that there is none to be had, is good enough."""

_PATIENCE = 0.03


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a queue, None when the broker did not tell it; `others` wait in it through other gateways."""

    state: QueueState | None = None
    others: int = 0
    read_at: float = field(default_factory=time.monotonic)

    @property
    def delivered(self) -> int:
        """The position of the last turn that is known to have been delivered."""
        return self.state.delivered_position if self.state else 0


@dataclass
class _Own:
    """What this gateway has in one agent's queue: turns that are being put in, and the positions of those that wait."""

    entering: int = 0
    waiting: list[int] = field(default_factory=list[int])


@dataclass
class QueuePlaces:
    """Asks the broker at most twice a second per agent, however many turns wait."""

    bus: Bus
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict[tuple[str, str], _Known])
    _asking: dict[tuple[str, str], asyncio.Task[None]] = field(
        default_factory=dict[tuple[str, str], "asyncio.Task[None]"]
    )
    _own: dict[tuple[str, str], _Own] = field(default_factory=lambda: defaultdict(_Own))

    async def waiting(self, team: str, agent: str) -> int:
        """How many turns wait in the agent's queue, as far as that can be known in a few hundredths of a second.

        What other gateways have put in is half a second old at most; a turn of this one counts from `entering` on.
        """
        queue = (team, agent)
        try:
            async with asyncio.timeout(_PATIENCE):
                known = await self._state(queue)
        except TimeoutError:
            known = _Known()
        own = self._own.get(queue) or _Own()
        return known.others + own.entering + _behind(own.waiting, known.delivered)

    @contextmanager
    def entering(self, team: str, agent: str) -> Generator[None]:
        """Count a turn that is put into the queue inside the block."""
        own = self._own[team, agent]
        own.entering += 1
        try:
            yield
        finally:
            own.entering -= 1
            self._forget((team, agent), own)

    @contextmanager
    def place(self, team: str, agent: str, position: int) -> Generator["QueuePlace"]:
        """The place of a turn whose message is stored at `position`, until it is taken or the block ends."""
        own = self._own[team, agent]
        insort(own.waiting, position)
        place = QueuePlace(self, team, agent, position)
        try:
            yield place
        finally:
            place.leave()

    def left(self, team: str, agent: str, position: int) -> None:
        """The turn at `position` waits no more."""
        own = self._own[team, agent]
        del own.waiting[bisect_left(own.waiting, position)]
        self._forget((team, agent), own)

    async def ahead(self, team: str, agent: str, position: int) -> int | None:
        """How many turns wait in front of `position`; None when it waits no more or the broker does not say."""
        known = await self._state((team, agent))
        if known.state is None or known.delivered >= position:
            return None
        own = self._own[team, agent].waiting
        return bisect_left(own, position) - bisect_right(own, known.delivered) + known.others

    async def _state(self, queue: tuple[str, str]) -> _Known:
        """What is known, after asking if that is too old. All who want to know at once share one question."""
        known = self._known.get(queue)
        if known is not None and time.monotonic() - known.read_at < SHARED_FOR:
            return known
        if (asking := self._asking.get(queue)) is None:
            asking = self._asking[queue] = self.bus.spawn(self._ask(queue))
        await asyncio.shield(asking)
        return self._known[queue]

    async def _ask(self, queue: tuple[str, str]) -> None:
        """Read the state. A turn that enters or leaves meanwhile counts as this gateway's: it may be in there."""
        own = self._own.get(queue) or _Own()
        entering, waiting = own.entering, set(own.waiting)
        try:
            state = await queue_state(self.bus, *queue)
        except PallasError:
            self._known[queue] = _Known()
        else:
            own = self._own.get(queue) or _Own()
            mine = sum(position > state.delivered_position for position in waiting.union(own.waiting))
            self._known[queue] = _Known(state, max(0, state.waiting - mine - max(entering, own.entering)))
        finally:
            del self._asking[queue]

    def _forget(self, queue: tuple[str, str], own: _Own) -> None:
        if not own.entering and not own.waiting:
            self._own.pop(queue, None)


def _behind(positions: list[int], position: int) -> int:
    return len(positions) - bisect_right(positions, position)


@dataclass
class QueuePlace:
    """The place of one turn. It never moves back, though other gateways may put in turns behind it."""

    places: QueuePlaces
    team: str
    agent: str
    position: int
    _last: int | None = None
    _left: bool = False

    async def ahead(self) -> int | None:
        """How many turns are still in front of this one; None when it is not known."""
        ahead = await self.places.ahead(self.team, self.agent, self.position)
        if ahead is not None:
            self._last = ahead if self._last is None else min(self._last, ahead)
            return self._last
        return None

    def leave(self) -> None:
        """The turn waits no more: it is taken, or nobody follows it. Once is enough."""
        if not self._left:
            self._left = True
            self.places.left(self.team, self.agent, self.position)
