"""Connections to the endpoints of agents, which must not lead into the network of this machine.

The name is resolved once for each connection, its addresses are checked, and the connection is made to an address that
was checked: a name that resolves differently later (DNS rebinding) changes nothing. TLS still checks the name.
"""

import asyncio
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import httpcore2
import httpx2
from httpcore2 import SOCKET_OPTION, AsyncNetworkBackend, AsyncNetworkStream

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 2.0
"""Servers close idle connections, many after 5 s. A call that is sent at that moment fails, so the pool is first."""
_MOST_IDLE = 100
_TUNNELS = tuple(map(ip_network, ("2002::/16", "2001::/32", "64:ff9b::/96")))
"""Addresses behind which is another one (6to4, Teredo, NAT64)."""


class Forbidden(httpcore2.ConnectError):
    """No address of the host may be connected to."""


def is_allowed(address: Address, networks: Iterable[Network]) -> bool:
    """Whether an endpoint may have this address: a public one, or one in `networks`."""
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in networks):
        return True
    return address.is_global and not address.is_multicast and not any(address in tunnel for tunnel in _TUNNELS)


async def checked_addresses(host: str, port: int, networks: Sequence[Network]) -> list[str]:
    """The addresses of a host that may be connected to.

    Raises:
        Forbidden: it has none.
        ConnectError: it cannot be resolved.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError("the name of the endpoint cannot be resolved") from error
    addresses = [str(address[0]) for *_, address in found]
    if allowed := [text for text in addresses if is_allowed(ip_address(text), networks)]:
        return allowed
    raise Forbidden("the endpoint is in a network that is not allowed")


class _Backend(AsyncNetworkBackend):
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks
        self._inner: Any = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await checked_addresses(host, port, self._networks)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("resolving the name of the endpoint took too long") from error
        return await self._inner.connect_tcp(addresses[0], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport whose connections lead to public addresses, and to those in `networks`."""

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__(trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=None,
            max_keepalive_connections=_MOST_IDLE,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_Backend(networks),
        )


def guarded_client(transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncClient:
    """A client without proxies and redirects. Reads have no time limit: that of the turn bounds a call."""
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None, pool=None)
    return httpx2.AsyncClient(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)
