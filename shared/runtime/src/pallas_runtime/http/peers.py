"""The address of a caller: that of the connection, or the one that trusted proxies report.

A proxy appends the address that called it to `X-Forwarded-For`. Addresses further left come from that caller, which
may send anything, so an address counts only while every address to its right is a trusted proxy.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

type Network = IPv4Network | IPv6Network

_FORWARDED_FOR = b"x-forwarded-for"


def name_caller(scope: Scope, trusted: Sequence[Network]) -> None:
    """Replace the connection's address in the scope by the caller's, when there are trusted proxies."""
    peer = scope.get("client")
    if not trusted or peer is None:
        return
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == _FORWARDED_FOR]
    scope["client"] = (caller_of(peer[0], ",".join(named).split(","), trusted), peer[1])


def caller_of(peer: str, named: Sequence[str], trusted: Iterable[Network]) -> str:
    """The first address from the right that is not a trusted proxy; when all are, the last readable one."""
    found = _address(peer)
    if found is None:
        return peer
    for word in reversed(named):
        if not any(found in network for network in trusted) or (nearer := _address(word)) is None:
            break
        found = nearer
    return str(found)


def _address(word: str) -> IPv4Address | IPv6Address | None:
    """The address in `word`, which may end with a port; None when there is none."""
    word = word.strip()
    if word.startswith("["):
        word = word[1:].partition("]")[0]
    elif word.count(":") == 1:
        word = word.partition(":")[0]
    try:
        address = ip_address(word)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
