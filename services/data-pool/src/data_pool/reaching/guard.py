"""Connections to the endpoints of agents, which must not lead into the network of this machine."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network

import httpx2

from pallas_runtime.http import guard
from pallas_runtime.http.guard import Address

type Network = IPv4Network | IPv6Network

CONNECT_SECONDS = 10.0
_TUNNELS = tuple(map(ip_network, ("2002::/16", "2001::/32", "64:ff9b::/96")))
"""Addresses behind which is another one (6to4, Teredo, NAT64)."""


def is_allowed(address: Address, networks: Iterable[Network]) -> bool:
    """Whether an endpoint may have this address: a public one, or one in `networks`."""
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in networks):
        return True
    return address.is_global and not address.is_multicast and not any(address in tunnel for tunnel in _TUNNELS)


class GuardedTransport(guard.GuardedTransport):
    """A transport whose connections lead to public addresses, and to those in `networks`."""

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__(lambda address: is_allowed(address, networks))


def guarded_client(transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncClient:
    """A client without proxies and redirects. Reads have no time limit: that of the turn bounds a call."""
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None, pool=None)
    return httpx2.AsyncClient(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)
