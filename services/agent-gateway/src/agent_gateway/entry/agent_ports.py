"""Agents' own ports: bound by the first gateway of a host that can, taken over by another when it goes."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from starlette.types import ASGIApp

from pallas_bus.tables import Table
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from pallas_runtime.http import bind, listening

log = logging.getLogger(__name__)

RETRY = 1.0


@dataclass
class AgentPorts:
    """Keeps the listeners as the catalogue asks. `app_for(team, agent)` makes the application of one."""

    catalogue: Table[AgentDefinition]
    app_for: Callable[[str, str], ASGIApp]
    host: str
    drain_seconds: float
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    rebound: asyncio.Event = field(default_factory=asyncio.Event)
    bound: dict[str, int] = field(default_factory=dict[str, int])
    _open: dict[str, AsyncExitStack] = field(default_factory=dict[str, AsyncExitStack])
    _told: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    async def keep(self) -> None:
        """Bind and release ports for ever; end with all released."""
        self.catalogue.on_change(lambda _key, _definition: self.changed.set())
        try:
            while True:
                await self._settle()
                self.changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY):
                        await self.changed.wait()
        finally:
            for key in list(self._open):
                await self._release(key)

    async def _settle(self) -> None:
        wanted = {key: definition.port for key, definition in self.catalogue.items() if definition.port}
        for key in [key for key, port in self.bound.items() if wanted.get(key) != port]:
            await self._release(key)
        for key, port in wanted.items():
            if key not in self.bound:
                await self._bind(key, port)

    async def _bind(self, key: str, port: int) -> None:
        team, _, agent = key.partition(".")
        try:
            listener = bind(self.host, port)
        except Rejected:
            if (key, port) not in self._told:
                self._told.add((key, port))
                log.info("an agent's own port is taken; it is served by path", extra={"agent": key, "port": port})
            return
        stack = AsyncExitStack()
        await stack.enter_async_context(
            listening(self.app_for(team, agent), listener, drain_seconds=self.drain_seconds)
        )
        self._open[key], self.bound[key] = stack, port
        self.rebound.set()
        log.info("agent's own port bound", extra={"agent": key, "port": port})

    async def _release(self, key: str) -> None:
        del self.bound[key]
        self.rebound.set()
        await self._open.pop(key).aclose()
