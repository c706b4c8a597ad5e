"""Dedicated ports of agents: the first gateway of a host binds a port, another takes over when that gateway ends.

Each released port drains in its own task, so requests that are still served there delay no other port.
"""

import asyncio
import logging
import resource
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from starlette.types import Receive, Scope, Send

from agent_gateway.caller import DedicatedPort
from agent_gateway.settings import GatewaySettings
from pallas_bus.kv import Table
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from pallas_runtime.http.listener import bind, listening

log = logging.getLogger(__name__)

_FILES_PER_PORT = 4
"""Of so many files that the process may open, one may be a dedicated port."""

_PORTS = range(1024, 65536)


@dataclass(frozen=True, slots=True)
class PortLimits:
    """`most` ports in all, `most_per_team` of one team, and none that is `reserved`. `offset` is added to each."""

    most: int
    most_per_team: int
    reserved: frozenset[int] = frozenset()
    offset: int = 0

    def moved(self, port: int) -> int:
        """The port to bind instead of the one in a definition."""
        return port + self.offset

    def refusal(self, port: int) -> str | None:
        """Why a port is never bound; None if it may be."""
        if port in self.reserved:
            return "reserved for another service"
        return None if port in _PORTS else "no port from 1024 to 65535, with the offset of this gateway"

    def choose(self, wanted: Mapping[str, int], bound: Collection[str]) -> dict[str, int]:
        """The ports to bind of those wanted, by `{team}.{agent}`.

        A team keeps those that are `bound`. The first port of every team comes before the second of any.
        """
        teams: defaultdict[str, list[tuple[bool, str]]] = defaultdict(list)
        for key, port in wanted.items():
            if self.refusal(port) is None:
                teams[key.partition(".")[0]].append((key not in bound, key))
        ranked = [
            (rank, *waiting)
            for keys in teams.values()
            for rank, waiting in enumerate(sorted(keys)[: self.most_per_team])
        ]
        return {key: wanted[key] for _, _, key in sorted(ranked)[: self.most]}


def limits_of(settings: GatewaySettings) -> PortLimits:
    """The limits of the settings and of this process."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = settings.max_agent_ports
    if files != resource.RLIM_INFINITY:
        most = min(most, max(1, files // _FILES_PER_PORT))
    reserved = frozenset(settings.reserved_ports)
    return PortLimits(most, settings.max_agent_ports_per_team, reserved, settings.agent_port_offset)


RETRY = 1.0
_NAMED = 10
"""Refused agents whose names are logged."""


@dataclass
class DedicatedPorts:
    """Keeps a listener for each port in the catalogue. `app_for(team, agent)` makes the application of one."""

    catalogue: Table[AgentDefinition]
    app_for: Callable[[str, str], Callable[[Scope, Receive, Send], Awaitable[None]]]
    host: str
    drain_seconds: float
    limits: PortLimits
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    rebound: asyncio.Event = field(default_factory=asyncio.Event)
    bound: dict[str, int] = field(default_factory=dict[str, int])
    _open: dict[str, tuple[DedicatedPort, AsyncExitStack]] = field(
        default_factory=dict[str, tuple[DedicatedPort, AsyncExitStack]]
    )
    _releasing: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    _logged: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _refused: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    async def keep(self) -> None:
        """Bind and release ports as the catalogue changes; release all when cancelled."""
        self.catalogue.on_change(lambda _key, _definition: self.changed.set())
        try:
            while True:
                await self._reconcile()
                self.changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY):
                        await self.changed.wait()
        finally:
            for key in list(self._open):
                self._release(key)
            await asyncio.gather(*self._releasing)

    async def _reconcile(self) -> None:
        asked = {key: definition.port for key, definition in self.catalogue.items() if definition.port}
        wanted = {key: self.limits.moved(port) for key, port in asked.items()}
        chosen = self.limits.choose(wanted, {key for key, port in self.bound.items() if wanted.get(key) == port})
        self._log_refused({key: port for key, port in wanted.items() if key not in chosen})
        self._logged.intersection_update(chosen.items())
        for key in [key for key, port in self.bound.items() if chosen.get(key) != port]:
            self._release(key)
        for key, port in chosen.items():
            if key not in self.bound:
                await self._bind(key, port)

    def _log_refused(self, refused: Mapping[str, int]) -> None:
        """Log once for each team and reason that ports are refused, not once for each agent."""
        agents: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for key, port in refused.items():
            reason = self.limits.refusal(port) or "more than the gateway allows"
            agents[key.partition(".")[0], reason].append(key)
        for team, reason in sorted(agents.keys() - self._refused):
            keys = agents[team, reason]
            facts = {"team": team, "reason": reason, "refused": len(keys), "agents": keys[:_NAMED]}
            log.warning("dedicated ports refused; agents served by path", extra=facts)
        self._refused = set(agents)

    async def _bind(self, key: str, port: int) -> None:
        team, _, agent = key.partition(".")
        try:
            listener = bind(self.host, port)
        except Rejected as error:
            if (key, port) not in self._logged:
                self._logged.add((key, port))
                facts = {"agent": key, "port": port, "reason": error.message}
                log.info("dedicated port not available; agent served by path", extra=facts)
            return
        app, stack = DedicatedPort(self.app_for(team, agent)), AsyncExitStack()
        await stack.enter_async_context(listening(app, listener, drain_seconds=self.drain_seconds))
        self._open[key], self.bound[key] = (app, stack), port
        self.rebound.set()
        log.info("dedicated port bound", extra={"agent": key, "port": port})

    def _release(self, key: str) -> None:
        del self.bound[key]
        self.rebound.set()
        app, stack = self._open.pop(key)
        app.released = True
        task = asyncio.create_task(stack.aclose(), name=f"release the port of {key}")
        self._releasing.add(task)
        task.add_done_callback(self._released)

    def _released(self, task: asyncio.Task[None]) -> None:
        self._releasing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("dedicated port not released cleanly", exc_info=error)
