"""Identifies callers by their bearer, or else by their address.

The bearer of every request is resolved again, because a grant may have been revoked since the last one. A bearer is
sent to the resolver only.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from prometheus_client import Counter
from pydantic import ValidationInfo

from pallas_contracts.auth import AUTH_FAILURES, LONGEST_BEARER, ResolveBearer, Resolved
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal

type AuthMode = Literal["off", "optional", "required"]
"""When a caller's bearer is checked: never, when it sends one, or always (a bearer is then required)."""


def open_on_loopback_only(value: AuthMode, info: ValidationInfo) -> AuthMode:
    """Refuse `off` for a service that other hosts can reach, unless the operator allows it explicitly."""
    host = info.data.get("host")
    if value == "off" and not info.data.get("allow_unauthenticated") and host is not None and not _is_loopback(host):
        raise ValueError(
            "off is allowed only while PALLAS_HOST is a loopback address; use required or optional, "
            "or set PALLAS_ALLOW_UNAUTHENTICATED=true"
        )
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


type Resolve = Callable[[ResolveBearer], Awaitable[Resolved]]


def bearer_of(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The bearer of a request: None without an `Authorization` header, empty when the header is not one bearer."""
    given = [value for name, value in headers if name == b"authorization"]
    if not given:
        return None
    scheme, _, bearer = given[0].partition(b" ")
    return bearer.strip().decode("latin-1") if scheme.lower() == b"bearer" and len(given) == 1 else ""


@dataclass
class Bearers:
    """`resolve` asks auth-resolver. `failures` counts the refusals that are made here; the resolver counts its own."""

    mode: AuthMode
    resolve: Resolve
    failures: Counter

    def check_bearer(self, bearer: str | None) -> str | None:
        """Return the bearer to resolve, or None when the caller is identified by its address.

        An empty bearer means that the `Authorization` header holds none.

        Raises:
            Denied: the bearer is missing or malformed.
        """
        if self.mode == "off" or (bearer is None and self.mode == "optional"):
            return None
        if not bearer:
            raise self.refused("missing")
        if len(bearer) > LONGEST_BEARER:
            raise self.refused("malformed")
        return bearer

    async def identify_caller(self, bearer: str, *, uses_up: bool = False) -> Principal:
        """Return the owner of the bearer. `uses_up`: a per-turn token is used up by this request.

        Raises:
            Denied: the bearer is refused; the message is that of the contract.
            Unavailable: the resolver does not answer.
        """
        return (await self.resolve(ResolveBearer(bearer=bearer, uses_up=uses_up))).principal

    def refused(self, reason: str) -> Denied:
        """The refusal for one of the reasons in `AUTH_FAILURES`, which is counted."""
        self.failures.labels(reason).inc()
        return Denied(AUTH_FAILURES[reason], code=reason)
