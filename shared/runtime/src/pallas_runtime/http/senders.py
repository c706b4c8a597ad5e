"""Who sends a request: the Host and Origin headers that a service accepts, and the address of the caller.

The headers protect against DNS rebinding. The MCP SDK checks them in the same way; services that do not serve MCP use
this, since importing the SDK takes long. The address is that of the connection, or the one that trusted proxies report.
A proxy appends the address that called it to `X-Forwarded-For`. Addresses further left come from that caller, which
may send anything, so an address counts only while every address to its right is a trusted proxy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

type Network = IPv4Network | IPv6Network

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_FORWARDED_FOR = b"x-forwarded-for"


@dataclass(frozen=True, slots=True)
class AcceptedHosts:
    """The headers to accept. `:*` stands for any port."""

    hosts: list[str]
    origins: list[str]

    def refusal(self, headers: Headers) -> Response | None:
        """The answer to a request with other headers, else None. Only browsers send an Origin."""
        if not _is_among(headers.get("host", ""), self.hosts):
            return Response("Invalid Host header", 421)
        if (origin := headers.get("origin")) and not _is_among(origin, self.origins):
            return Response("Invalid Origin header", 403)
        return None


def accepted_hosts(
    public_url: str | None, allowed_hosts: Sequence[str], allowed_origins: Sequence[str]
) -> AcceptedHosts | None:
    """Loopback, the public address, and what the settings allow; None if they allow every host."""
    if "*" in allowed_hosts:
        return None
    local = [*_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)]
    public = urlsplit(public_url).netloc if public_url else None
    origins = [f"http://{host}" for host in local] + ([public_url.rstrip("/")] if public_url else [])
    return AcceptedHosts([*local, *allowed_hosts, *([public] if public else [])], [*origins, *allowed_origins])


def _is_among(value: str, accepted: list[str]) -> bool:
    return value in accepted or any(each.endswith(":*") and value.startswith(each[:-1]) for each in accepted)


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
