"""Since when turns wait for a worker. The requests themselves are not read."""

import time
from dataclasses import dataclass, field

from pallas_bus.connection import Bus
from pallas_contracts.errors import Unavailable
from pallas_turns.queue import turns_by_caller


@dataclass(frozen=True, slots=True)
class TurnQueue:
    """The queue on `bus`. A turn leaves the stream when it has ended, so the turns in it wait or run."""

    bus: Bus
    _since: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])

    async def waiting_since(self, team: str, agent: str) -> float | None:
        """When turns of the agent were first seen, in seconds since the epoch; None without turns or without broker."""
        try:
            waiting = await turns_by_caller(self.bus, team, agent)
        except Unavailable:
            return None
        if waiting:
            return self._since.setdefault((team, agent), time.time())
        self._since.pop((team, agent), None)
        return None
