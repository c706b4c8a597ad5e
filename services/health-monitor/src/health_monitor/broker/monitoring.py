"""Reads what the servers of the broker say about themselves, from their HTTP monitoring.

It needs no user and no connection to the broker, so it also works when that has lost its quorum. The name in an address
may stand for several servers, as that of a headless service does: all of its addresses are asked.
"""

import asyncio
import socket
from collections.abc import Iterable

import httpx

from pallas_bus.servers import Server, server_of

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
