"""How many turns wait in front of one, from the state of its agent's consumer.

The broker does not say where a message stands, only how many wait. So the first answer counts all that wait when the
turn was put in, and later ones subtract what has been delivered since. Answers are shared for half a second.
"""

import time
from dataclasses import dataclass, field

from pallas_bus.connection import Bus
from pallas_bus.turn_queue import QueueState, queue_state
from pallas_contracts.errors import PallasError

SHARED_FOR = 0.5


@dataclass
class QueuePlaces:
    """Asks the broker at most twice a second per agent, however many turns wait."""

    bus: Bus
    _known: dict[tuple[str, str], tuple[float, QueueState]] = field(
        default_factory=dict[tuple[str, str], tuple[float, QueueState]]
    )

    async def state(self, team: str, agent: str) -> QueueState | None:
        """The state of an agent's queue, at most half a second old; None when the broker does not say."""
        known = self._known.get((team, agent))
        if known is not None and time.monotonic() - known[0] < SHARED_FOR:
            return known[1]
        try:
            state = await queue_state(self.bus, team, agent)
        except PallasError:
            return None
        self._known[team, agent] = (time.monotonic(), state)
        return state


@dataclass
class QueuePlace:
    """The place of one turn. `position` is where its message is stored."""

    places: QueuePlaces
    team: str
    agent: str
    position: int
    _first: QueueState | None = None

    async def ahead(self) -> int | None:
        """How many turns are still in front of this one; None when it is not known."""
        state = await self.places.state(self.team, self.agent)
        if state is None or state.delivered_position >= self.position:
            return None
        if self._first is None:
            self._first = state
        delivered = state.delivered - self._first.delivered
        return max(0, self._first.waiting - 1 - delivered)
