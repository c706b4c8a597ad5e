"""The Host and Origin headers that a service for MCP accepts, as a protection against DNS rebinding."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class AcceptedHosts:
    """The headers to accept. `:*` stands for any port."""

    hosts: list[str]
    origins: list[str]


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
