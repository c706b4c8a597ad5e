"""Hosts the agents that this replica can reach, and ends the turns of those that nobody can.

No replica leads. One that has an agent's WebSocket, or any if the agent has an endpoint, hosts it and says so in its
presence. When no presence has had an agent for `patience` seconds, every replica hosts it only to end its turns, until
one can reach it again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from data_pool.executing import DataRuntime, UnreachableRuntime
from data_pool.reaching.links import Links
from data_pool.reaching.socket_calls import SocketCalls, SocketLink
from data_pool.registering.registrations import Registrations
from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.kv import Table
from pallas_contracts.agents import Trouble, WorkerPresence
from pallas_contracts.bounds import line
from pallas_contracts.catalog import DATA_TEAM, HEARTBEATS
from pallas_contracts.data_agents import DataAgent, Heartbeat
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_turns.executor import Executor
from pallas_turns.runtime import HostedAgent

log = logging.getLogger(__name__)

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


_AT_ONCE = 64
_RETRY = 1.0


@dataclass
class HostAgents:
    """Made by `app`. `patience` is in seconds."""

    executor: Executor
    registered: Table[DataAgent]
    heartbeats: Heartbeats
    links: Links
    patience: float
    _unreached: dict[str, str] = field(default_factory=dict[str, str])
    _elsewhere: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _missing: dict[str, float] = field(default_factory=dict[str, float])
    _changed: dict[str, None] = field(default_factory=dict[str, None])
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def connect(self, agent: str, link: SocketLink) -> None:
        """An agent can be called over this link from now on, and not over an earlier one."""
        self.links.connect(agent, link)
        self.look_at([agent])

    def disconnect(self, agent: str, calls: SocketCalls) -> None:
        """An agent is no longer on this WebSocket."""
        self.links.disconnect(agent, calls)
        self.look_at([agent])

    async def heard(self, entry: DataAgent, status: str, *, shared: bool) -> None:
        """A heartbeat has come (see `Heartbeats.came`). What changes by it is published at once.

        Raises:
            Unavailable: the broker does not answer.
        """
        before = self.trouble(entry.agent)
        try:
            await self.heartbeats.came(entry.agent, status, shared=shared)
        finally:
            after = self.trouble(entry.agent)
            if (before and before.status) != (after and after.status):
                self.executor.presence_changed.set()

    def look_at(self, agents: Iterable[str]) -> None:
        """Something about these agents has changed: decide anew whether they are hosted here."""
        self._changed |= dict.fromkeys(agents)
        self._wake.set()

    def on_registered(self, agent: str, entry: DataAgent | None) -> None:
        """Follow the bucket `data_agents`."""
        self._unreached.pop(agent, None)
        if entry is None:
            self.heartbeats.forget(agent)
        self.links.follow(agent, entry.endpoint if entry is not None else None)
        self.look_at([agent])

    def on_presence(self, worker: str, presence: WorkerPresence | None) -> None:
        """Follow the presences of the other replicas."""
        if worker == self.executor.bus.instance:
            return
        prefix = f"{DATA_TEAM}."
        now = frozenset(
            key.removeprefix(prefix) for key in (presence.agents if presence else ()) if key.startswith(prefix)
        )
        before = self._elsewhere.pop(worker, frozenset())
        if now:
            self._elsewhere[worker] = now
        self.look_at(now ^ before)

    def reached(self, agent: str, problem: str | None) -> None:
        """A call has reached the agent, or not. Of an agent at an endpoint nothing else is known."""
        before = self._unreached.pop(agent, None)
        if problem is not None:
            self._unreached[agent] = problem
        if (before is None) != (problem is None):
            self.executor.presence_changed.set()

    def reachable(self, agent: str) -> bool:
        """Whether a replica can reach the agent, as far as this one knows."""
        hosted = self.executor.agents.get(f"{DATA_TEAM}.{agent}")
        return (hosted is not None and hosted.reachable) or self._is_elsewhere(agent)

    def trouble(self, agent: str) -> Trouble | None:
        """What is wrong with an agent that is hosted here."""
        hosted = self.executor.agents.get(f"{DATA_TEAM}.{agent}")
        entry = self.registered.get(agent)
        if hosted is None or entry is None:
            return None
        if isinstance(hosted.runtime, UnreachableRuntime):
            return Trouble(status="error", reason=hosted.runtime.why)
        if entry.endpoint is not None and (problem := self._unreached.get(agent)) is not None:
            return Trouble(status="degraded", reason=line(f"the last call did not reach it: {problem}"))
        return trouble_of(entry, self.heartbeats.last(agent), self.heartbeats.now())

    def troubles(self) -> dict[str, Trouble]:
        """What is wrong with the agents that are hosted here, by `{team}.{agent}`."""
        found = {key: self.trouble(key.partition(".")[2]) for key in self.executor.agents}
        return {key: trouble for key, trouble in found.items() if trouble is not None}

    async def run(self) -> None:
        """Host agents as they come and go, for ever."""
        while True:
            self._wake.clear()
            due = min(self._missing.values(), default=None)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    if not self._changed:
                        await self._wake.wait()
            now = asyncio.get_running_loop().time()
            overdue = [agent for agent, at in self._missing.items() if at <= now]
            some = list(dict.fromkeys([*self._changed, *overdue]))[:_AT_ONCE]
            for agent in some:
                self._changed.pop(agent, None)
            await asyncio.gather(*map(self._decide, some))

    async def _decide(self, agent: str) -> None:
        """Host an agent, or stop hosting it."""
        wanted = self._wanted(agent)
        key = f"{DATA_TEAM}.{agent}"
        try:
            if wanted is None:
                await self.executor.remove(key)
            elif self.executor.agents.get(key) != wanted:
                await self.executor.add(wanted)
        except PallasError as error:
            log.warning("an agent cannot be hosted now", extra={"agent": agent, "reason": error.message})
            asyncio.get_running_loop().call_later(_RETRY, self.look_at, [agent])

    def _wanted(self, agent: str) -> HostedAgent | None:
        """The agent as it is to be hosted here; None if it is not."""
        entry, due = self.registered.get(agent), self._missing.pop(agent, None)
        if entry is None:
            return None
        if self.links.find(agent) is not None:
            return HostedAgent(entry.definition, DataRuntime(entry, self.links.find, self.patience, self.reached))
        if self._is_elsewhere(agent):
            return None
        if not entry.connects:
            why = f"The agent {agent!r} has registered without a way to be called."
            return HostedAgent(entry.definition, UnreachableRuntime(why, retryable=False), reachable=False)
        hosted, now = self.executor.agents.get(f"{DATA_TEAM}.{agent}"), asyncio.get_running_loop().time()
        ends_turns = hosted is not None and not hosted.reachable
        # Without the broker nobody's presence can be seen.
        if not ends_turns and (due is None or now < due or not self.executor.bus.connected):
            self._missing[agent] = due if due is not None and now < due else now + self.patience
            return None
        why = f"The agent {agent!r} is not connected."
        return HostedAgent(entry.definition, UnreachableRuntime(why, retryable=True), reachable=False)

    def _is_elsewhere(self, agent: str) -> bool:
        return any(agent in there for there in self._elsewhere.values())


async def forget_silent(registrations: Registrations, hosting: HostAgents, seconds: float) -> None:
    """Remove the agents that should send heartbeats, have not for `seconds`, and are not connected.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    for agent, entry in registrations.table.items():
        silent = silence(entry, hosting.heartbeats.last(agent), hosting.heartbeats.now())
        connected = entry.endpoint is None and hosting.reachable(agent)
        if entry.heartbeat_interval is not None and silent > seconds and not connected:
            log.info("forgotten", extra={"team": DATA_TEAM, "agent": agent, "silent": round(silent)})
            await registrations.remove(agent)
