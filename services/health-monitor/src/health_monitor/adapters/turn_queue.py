"""The turns that wait for a worker, read off the queue's stream without touching its consumers."""

from dataclasses import dataclass

from pallas_bus.connection import Bus
from pallas_bus.direct import read
from pallas_contracts.catalog import TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.errors import Unavailable


@dataclass(frozen=True, slots=True)
class TurnQueue:
    """The queue on `bus`. A turn leaves the stream when it is concluded, so what is there waits or runs."""

    bus: Bus

    async def oldest(self, team: str, agent: str) -> float | None:
        """When the oldest turn was queued, in seconds since the epoch; None when there is none or nobody can say."""
        subject = TURN_REQUESTED.template.filter(team=team, agent=agent)
        try:
            record = await anext(read(self.bus, TURN_QUEUE.name, subject, batch=1, timeout=0.5), None)
        except Unavailable:
            return None
        return record.time.timestamp() if record else None
