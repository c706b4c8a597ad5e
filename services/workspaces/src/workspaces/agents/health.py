"""The health of all agents, as their `get_health` has answered last (interface contract, sections 3 and 4).

It is kept in memory, so each replica checks for itself. A check that fails is the health `error`.
"""

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import Gauge

from pallas_mcp_calls.model import HealthReport, Target
from workspaces.agents.targets import Agent
from workspaces.answers import AgentStatus, HealthView
from workspaces.live.hub import ALL, Hub
from workspaces.model import Health

UNKNOWN = HealthView(status="unknown")
STALE_INTERVALS = 3
AGAIN_SECONDS = 5.0
"""How often one agent is checked at most because somebody wants to know."""
_JITTER = 0.05
_LEVELS: dict[Health, float] = {"ok": 1.0, "degraded": 0.5, "error": 0.0}

type Ask = Callable[[Target], Awaitable[HealthReport]]


@dataclass(slots=True)
class Entry:
    """What is known about one agent. Times are those of the monotonic clock; `due` is that of its next check."""

    agent: Agent
    due: float
    view: HealthView = UNKNOWN
    checked: float | None = None
    began: float | None = None

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of its series: name of the instance, id of the server."""
        return self.agent.instance, self.agent.server_id


class HealthBook:
    """The health of agents, by ids of instance and server. `interval` is that of the checks, in seconds."""

    def __init__(self, ask: Ask, hub: Hub, gauge: Gauge, interval: float) -> None:
        self.interval = interval
        self._ask = ask
        self._hub = hub
        self._gauge = gauge
        self._entries = dict[tuple[str, str], Entry]()
        self._series = set[tuple[str, str]]()
        self._rescheduled = 0.0

    def of(self, instance_id: str, server_id: str) -> HealthView:
        """The health of an agent, without waiting."""
        entry = self._entries.get((instance_id, server_id))
        return self._view(entry) if entry is not None else UNKNOWN

    def statuses(self) -> list[AgentStatus]:
        """The health of all agents, by instance and title."""
        found = [self._status(entry) for entry in self._entries.values()]
        return sorted(found, key=lambda one: (one.instance.casefold(), one.title.casefold(), one.server_id))

    async def check_now(self, instance_id: str, server_id: str) -> HealthView:
        """Check an agent, unless that was done within the last five seconds. Returns its health."""
        entry = self._entries.get((instance_id, server_id))
        if entry is None:
            return UNKNOWN
        if entry.began is None or time.monotonic() - entry.began >= AGAIN_SECONDS:
            await self.check(entry)
        return self._view(entry)

    def update(self, agents: list[Agent]) -> None:
        """Keep a book of these agents, and no others. New ones, and those with another address or bearer, are due."""
        now, before, self._entries = time.monotonic(), self._entries, dict[tuple[str, str], Entry]()
        for agent in agents:
            entry = before.get(agent.key)
            if entry is None or entry.agent.target != agent.target:
                entry = Entry(agent, now, entry.view if entry is not None else UNKNOWN)
            entry.agent = agent
            self._entries[agent.key] = entry
            if entry.checked is not None:
                self._measure(entry)  # its labels may be others now
        for gone in self._series - {entry.labels for entry in self._entries.values()}:
            self._gauge.remove(*gone)
            self._series.discard(gone)

    def take_due(self) -> list[Entry]:
        """The agents that are to be checked now. They are due again later."""
        now = time.monotonic()
        due = [entry for entry in self._entries.values() if entry.due <= now]
        for entry in due:
            entry.due = now + self._pause(entry)
        return due

    def next_due(self) -> float:
        """Seconds until an agent is due."""
        earliest = min((entry.due for entry in self._entries.values()), default=time.monotonic() + self.interval)
        return max(0.0, earliest - time.monotonic())

    def reschedule(self, interval: float) -> None:
        """Check at another interval from now on."""
        if interval != self.interval:
            self.interval = interval
            now = self._rescheduled = time.monotonic()
            for entry in self._entries.values():
                entry.due = min(entry.due, now + random.uniform(0, interval))  # noqa: S311 - it only spreads checks

    async def check(self, entry: Entry) -> None:
        """Check one agent, and tell if its health is another than before: also if it was not checked for long."""
        entry.began = time.monotonic()
        target = entry.agent.target
        unreadable = HealthReport("error", "the token for the agent was encrypted with a key that is not there")
        report = await self._ask(target) if target is not None else unreadable
        if self._entries.get(entry.agent.key) is not entry:
            return
        before, entry.checked = self._view(entry), time.monotonic()
        entry.view = HealthView(status=report.status, message=report.message, at=datetime.now(UTC))
        self._measure(entry)
        if (before.status, before.message) != (report.status, report.message):
            await self._hub.tell(ALL, "health", self._status(entry).model_dump(mode="json"))

    def _pause(self, entry: Entry) -> float:
        """Seconds to the next check. The second one comes at any time within the interval, so checks are spread."""
        if entry.began is None:
            return random.uniform(0, self.interval)  # noqa: S311 - it only spreads checks
        return self.interval * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - it only spreads checks

    def _measure(self, entry: Entry) -> None:
        """Set the series of an agent."""
        self._gauge.labels(*entry.labels).set(_LEVELS.get(entry.view.status, 1.0))
        self._series.add(entry.labels)

    def _view(self, entry: Entry) -> HealthView:
        if entry.checked is None:
            return entry.view
        if time.monotonic() - max(entry.checked, self._rescheduled) <= STALE_INTERVALS * self.interval:
            return entry.view
        return HealthView(status="error", message="not checked", at=entry.view.at)

    def _status(self, entry: Entry) -> AgentStatus:
        agent = entry.agent
        return AgentStatus(
            instance_id=agent.instance_id,
            instance=agent.instance,
            server_id=agent.server_id,
            title=agent.title,
            health=self._view(entry),
        )
