"""The heartbeats of agents, and what follows from them (`data-agent-pool.md`, section 3.3).

Those that come over a WebSocket stay in the memory of the replica that has it, which is the one that reports the agent.
The others may come at any replica, so all of them read them in the bucket `heartbeats`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_contracts.agents import Trouble
from pallas_contracts.bounds import line
from pallas_contracts.catalog import HEARTBEATS
from pallas_contracts.data_agents import DataAgent, Heartbeat
from pallas_contracts.message import utc_now

DEGRADED_AFTER, ERROR_AFTER = 1.5, 3.0
"""Intervals without a heartbeat."""

_WRITE_EVERY = timedelta(minutes=10)

_FINE = frozenset({"active", "idle", "ready", "busy", "ok"})
_FAILED = frozenset({"error", "failed", "stopped", "inactive"})


@dataclass
class Heartbeats:
    """The last heartbeat of each agent, as far as it is known here."""

    bus: Bus
    table: Table[Heartbeat]
    now: Callable[[], datetime] = utc_now
    _here: dict[str, Heartbeat] = field(default_factory=dict[str, Heartbeat])

    def last(self, agent: str) -> Heartbeat | None:
        """The last heartbeat of an agent, or None."""
        known = [beat for beat in (self._here.get(agent), self.table.get(agent)) if beat is not None]
        return max(known, key=lambda beat: beat.at, default=None)

    async def came(self, agent: str, status: str, *, shared: bool) -> None:
        """Keep a heartbeat. It is stored if other replicas need it (`shared`), or if it says something new.

        Raises:
            Unavailable: the broker does not answer.
        """
        stored, beat = self.table.get(agent), Heartbeat(agent=agent, status=status, at=self.now())
        self._here[agent] = beat
        if shared or stored is None or stored.status != status or beat.at - stored.at > _WRITE_EVERY:
            await kv.put(self.bus, HEARTBEATS, beat, agent=agent)

    def forget(self, agent: str) -> None:
        """The agent is not registered any more."""
        self._here.pop(agent, None)


def silence(entry: DataAgent, beat: Heartbeat | None, now: datetime) -> float:
    """The seconds since an agent was heard of."""
    heard = max(entry.registered_at, beat.at) if beat is not None else entry.registered_at
    return (now - heard).total_seconds()


def trouble_of(entry: DataAgent, beat: Heartbeat | None, now: datetime) -> Trouble | None:
    """What is wrong with an agent that can be reached, by its heartbeats and by what it says of itself."""
    word = beat.status.strip().lower() if beat is not None else "active"
    said = Trouble(status="error" if word in _FAILED else "degraded", reason=line(f"it says {word!r}"))
    silent = silence(entry, beat, now)
    missing = Trouble(
        status="error" if silent > ERROR_AFTER * (entry.heartbeat_interval or 0) else "degraded",
        reason=f"no heartbeat for {silent:.0f} s",
    )
    known = [] if word in _FINE else [said]
    if entry.heartbeat_interval is not None and silent > DEGRADED_AFTER * entry.heartbeat_interval:
        known.append(missing)
    return min(known, key=lambda trouble: trouble.status == "degraded", default=None)
