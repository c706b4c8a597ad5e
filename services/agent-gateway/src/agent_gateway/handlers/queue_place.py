"""How many turns wait in front of one, from the state of its agent's consumer and the turns this gateway has put in.

The broker does not say where a message stands, only how many wait. Of this gateway's own turns the order is known; all
that other replicas have put in count as being in front, because nothing here knows better.
"""

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


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a queue at `read_at`; `others` wait in it through other gateways."""

    read_at: float
    state: QueueState
    others: int


@dataclass
class QueuePlaces:
    """Asks the broker at most twice a second per agent, however many turns wait."""

    bus: Bus
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict[tuple[str, str], _Known])
    _own: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))

    @contextmanager
    def place(self, team: str, agent: str, position: int) -> Generator["QueuePlace"]:
        """The place of a turn whose message is stored at `position`, for as long as it is followed."""
        own = self._own[team, agent]
        insort(own, position)
        try:
            yield QueuePlace(self, team, agent, position)
        finally:
            del own[bisect_left(own, position)]
            if not own:
                self._own.pop((team, agent), None)

    async def ahead(self, team: str, agent: str, position: int) -> int | None:
        """How many turns wait in front of `position`; None when it waits no more or the broker does not say."""
        known = await self._state(team, agent)
        if known is None or known.state.delivered_position >= position:
            return None
        own = self._own[team, agent]
        return bisect_left(own, position) - bisect_right(own, known.state.delivered_position) + known.others

    async def _state(self, team: str, agent: str) -> _Known | None:
        known = self._known.get((team, agent))
        if known is not None and time.monotonic() - known.read_at < SHARED_FOR:
            return known
        try:
            state = await queue_state(self.bus, team, agent)
        except PallasError:
            return None
        own = self._own[team, agent]
        mine = len(own) - bisect_right(own, state.delivered_position)
        known = self._known[team, agent] = _Known(time.monotonic(), state, max(0, state.waiting - mine))
        return known


@dataclass
class QueuePlace:
    """The place of one turn. It never moves back, though other gateways may put in turns behind it."""

    places: QueuePlaces
    team: str
    agent: str
    position: int
    _last: int | None = None

    async def ahead(self) -> int | None:
        """How many turns are still in front of this one; None when it is not known."""
        ahead = await self.places.ahead(self.team, self.agent, self.position)
        if ahead is not None:
            self._last = ahead if self._last is None else min(self._last, ahead)
            return self._last
        return None
