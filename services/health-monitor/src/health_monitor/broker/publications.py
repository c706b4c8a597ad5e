"""Writes results to their buckets: changes at once, and everything once per interval so that it stays fresh."""

import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field

from pallas_bus.connection import Bus
from pallas_bus.kv import Table, delete, put
from pallas_contracts.catalog import HEALTH, PROBES
from pallas_contracts.errors import PallasError
from pallas_contracts.health import AgentHealth, ProbeResult

log = logging.getLogger(__name__)

FRESH = 0.5
"""An unchanged result is written again when the one written is older than this part of the interval."""


@dataclass
class Publications:
    """The buckets on `bus`; the tables show what is in them. `interval` is the probe interval in seconds.

    Nothing fails here: what cannot be written is written with the next check.
    """

    bus: Bus
    interval: float
    health_table: Table[AgentHealth]
    probe_table: Table[ProbeResult]
    _health: dict[str, AgentHealth] = field(default_factory=dict[str, AgentHealth])
    _probes: dict[str, ProbeResult] = field(default_factory=dict[str, ProbeResult])

    async def health(self, health: AgentHealth) -> None:
        """Publish an agent's health unless the same has just been published."""
        key = f"{health.team}.{health.agent}"
        known = self._health.get(key)
        if known and known.model_copy(update={"at": health.at}) == health and not self._is_old(known, health):
            return
        if await self._written(put(self.bus, HEALTH, health, team=health.team, agent=health.agent)):
            self._health[key] = health
            if known is None or (known.status, known.message) != (health.status, health.message):
                log.info("health", extra={"agent": key, "status": health.status, "reason": health.message})

    async def probe(self, result: ProbeResult) -> None:
        """Publish a probe's result unless the same has just been published."""
        known = self._probes.get(result.key)
        if known and known.error == result.error and not self._is_old(known, result):
            return
        if await self._written(put(self.bus, PROBES, result, key=result.key)):
            self._probes[result.key] = result

    async def keep(self, agents: set[str], probes: set[str]) -> None:
        """Remove the health of agents, and the results of dependencies, that are gone."""
        for key in {key for key, _ in self.health_table.items()} - agents:
            team, _, agent = key.partition(".")
            self._health.pop(key, None)
            await self._written(delete(self.bus, HEALTH, team=team, agent=agent))
        for key in {key for key, _ in self.probe_table.items()} - probes:
            self._probes.pop(key, None)
            await self._written(delete(self.bus, PROBES, key=key))

    def _is_old(self, known: AgentHealth | ProbeResult, new: AgentHealth | ProbeResult) -> bool:
        return (new.at - known.at).total_seconds() >= self.interval * FRESH

    async def _written(self, writing: Coroutine[None, None, object]) -> bool:
        """Whether the write succeeded. Without a connection nothing is tried: it would only wait for a timeout."""
        if not self.bus.connected:
            writing.close()
            return False
        try:
            await writing
        except PallasError as error:
            self.bus.rarely.warn(log, "cannot publish", reason=error.message)
            return False
        return True
