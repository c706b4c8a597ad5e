"""What the servers of the broker say about themselves, read every few seconds from their HTTP monitoring.

It needs no user and no connection to the broker, so it also works when that has lost its quorum. The name in an address
may stand for several servers, as that of a headless service does: all of its addresses are asked.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import httpx

from health_monitor.broker_metrics import BrokerMetrics
from pallas_bus.servers import Server, server_of, views

TIMEOUT = 2.0
"""Seconds in which a server must answer."""


async def read_servers(http: httpx.AsyncClient, urls: Iterable[httpx.URL]) -> dict[str, Server | None]:
    """Every server by its address; None for those that do not answer."""
    found = [address for addresses in await asyncio.gather(*map(_addresses, urls)) for address in addresses]
    servers = await asyncio.gather(*(_read(http, address) for address in found))
    return dict(zip((address.netloc.decode() for address in found), servers, strict=True))


async def _addresses(url: httpx.URL) -> list[httpx.URL]:
    """The addresses that a URL stands for. A name that cannot be resolved stands for a server that is down."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError:
        return [url]
    return [url.copy_with(host=host) for host in sorted({str(each[4][0]) for each in found})]


async def _read(http: httpx.AsyncClient, address: httpx.URL) -> Server | None:
    try:
        async with asyncio.timeout(TIMEOUT):
            general, jetstream = await asyncio.gather(
                http.get(address.join("/varz")), http.get(address.join("/jsz"), params={"streams": "true"})
            )
        return server_of(general.raise_for_status().json(), jetstream.raise_for_status().json())
    except (httpx.HTTPError, TimeoutError, ValueError, KeyError):
        return None


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
