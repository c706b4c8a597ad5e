"""Shows every few seconds what the servers of the broker say about themselves."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from health_monitor.broker.monitoring import read_servers
from health_monitor.broker_metrics import BrokerMetrics
from pallas_bus.servers import Server, views

INTERVAL = 5.0
"""Seconds between two readings."""


@dataclass
class WatchServers:
    """Reads the servers at `urls`. What it has seen once is missing when no server has it any more."""

    http: httpx.AsyncClient
    urls: Sequence[httpx.URL]
    metrics: BrokerMetrics
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _streams: set[str] = field(default_factory=set[str])

    async def keep(self) -> None:
        """Read for ever."""
        while True:
            await self.look()
            await asyncio.sleep(INTERVAL)

    async def look(self) -> None:
        """Read all servers once. If none answers, nothing is known about streams, and they have no series."""
        found = await read_servers(self.http, self.urls)
        self._names = {at: server.name if server else self._names.get(at, at) for at, server in found.items()}
        self.metrics.servers_read({self._names[at]: server for at, server in found.items()})
        self._show_streams([server for server in found.values() if server is not None])

    def _show_streams(self, servers: Sequence[Server]) -> None:
        seen = views(servers)
        self._streams |= seen.keys()
        self.metrics.streams_read({name: seen.get(name) for name in self._streams} if servers else {})
