"""The Host and Origin headers that a service accepts, as a protection against DNS rebinding.

The MCP SDK checks them in the same way. Services that do not serve MCP use this, since importing the SDK takes long.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


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
