"""Identifies who opens a WebSocket, as gateways identify callers: by the bearer, or else by the address."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from prometheus_client import Counter
from starlette.requests import HTTPConnection

from pallas_contracts.auth import AUTH_FAILURES, LONGEST_BEARER, ResolveBearer, Resolved
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal
from pallas_runtime.auth_mode import AuthMode


@dataclass(frozen=True)
class Bearers:
    """`resolve` asks auth-resolver. Refusals that are made here are counted; the resolver counts its own."""

    mode: AuthMode
    resolve: Callable[[ResolveBearer], Awaitable[Resolved]]
    failures: Counter

    def bearer_of(self, connection: HTTPConnection) -> str | None:
        """The bearer to resolve, or None when the caller is identified by its address.

        Raises:
            Denied: the bearer is missing or malformed.
        """
        given = connection.headers.getlist("authorization")
        if self.mode == "off" or (not given and self.mode == "optional"):
            return None
        scheme, _, bearer = given[0].strip().partition(" ") if given else ("", "", "")
        bearer = bearer.strip()
        if scheme.lower() != "bearer" or not bearer or len(given) > 1:
            raise self._refused("missing")
        if len(bearer) > LONGEST_BEARER:
            raise self._refused("malformed")
        return bearer

    async def identify(self, connection: HTTPConnection, bearer: str | None) -> Principal:
        """Who opens the connection.

        Raises:
            Denied: the bearer is refused.
            Unavailable: the resolver does not answer.
        """
        if bearer is None:
            return Principal(id=connection.client.host if connection.client else "unknown")
        return (await self.resolve(ResolveBearer(bearer=bearer))).principal

    def _refused(self, reason: str) -> Denied:
        self.failures.labels(reason).inc()
        return Denied(AUTH_FAILURES[reason], code=reason)
