"""Which addresses may be connected to on behalf of an operator: registries, their agents and icons.

Registries are usually in a private network or on this machine. What must not be reached is what answers only because
the request comes from this machine: link-local addresses, among them those where clouds hand out credentials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from pallas_runtime.http.guard import Address, GuardedTransport
from workspaces.certificates import trusted

type Network = IPv4Network | IPv6Network

_METADATA = tuple(map(ip_network, ("100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32")))
"""Services of clouds that are not link-local: Alibaba, Azure, Oracle, AWS over IPv6."""
_NAT64 = ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Policy:
    """Allows the addresses in `networks`, or all if there are none, except those that are refused for all."""

    networks: Sequence[Network] = ()

    def allows(self, address: Address) -> bool:
        """Whether a connection to `address` may be made."""
        inner = _inner(address)
        refused = inner.is_link_local or inner.is_multicast or inner.is_unspecified or inner == _BROADCAST
        if refused or any(inner in network for network in _METADATA):
            return False
        return not self.networks or any(inner in network for network in self.networks)

    def allows_host(self, host: str) -> bool:
        """Whether `host` may be connected to as far as it can be known without resolving it."""
        try:
            return self.allows(ip_address(host.strip("[]").partition("%")[0]))
        except ValueError:
            return True

    def transport(self, **options: Any) -> GuardedTransport:
        """A transport whose connections are allowed; `options` are those of `GuardedTransport`."""
        return GuardedTransport(self.allows, ssl_context=trusted(), **options)


_BROADCAST = ip_address("255.255.255.255")


def _inner(address: Address) -> Address:
    """The address that a tunnel or a mapped address leads to."""
    if not isinstance(address, IPv6Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
