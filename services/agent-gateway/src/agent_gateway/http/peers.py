"""Who is at the other end of a connection: its peer, or whom the proxies that are trusted say they speak for.

A proxy appends the address that called it to `X-Forwarded-For`. What stands further left was said by that caller, who
may say anything: it counts as far as each address up to there is one of a trusted proxy.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import Scope

type Network = IPv4Network | IPv6Network

_FORWARDED_FOR = b"x-forwarded-for"


def name_caller(scope: Scope, trusted: Sequence[Network]) -> None:
    """Let a request come from its caller's address; without trusted proxies that is the connection's."""
    peer = scope.get("client")
    if not trusted or peer is None:
        return
    named = [value.decode("latin-1") for name, value in scope["headers"] if name == _FORWARDED_FOR]
    scope["client"] = (caller_of(peer[0], ",".join(named).split(","), trusted), peer[1])


def caller_of(peer: str, named: Sequence[str], trusted: Iterable[Network]) -> str:
    """The first address from the right that is no trusted proxy's; the last one that can be read, when all are."""
    found = _address(peer)
    if found is None:
        return peer
    for word in reversed(named):
        if not any(found in network for network in trusted) or (nearer := _address(word)) is None:
            break
        found = nearer
    return str(found)


def _address(word: str) -> IPv4Address | IPv6Address | None:
    """An address, which may have a port behind it, or None."""
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
