"""Connections that lead only to addresses which the policy allows.

A name is resolved once for each connection, its addresses are checked, and the connection is made to a checked one: a
name that resolves differently later (DNS rebinding) changes nothing. TLS still checks the name.
"""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2
from httpcore2 import SOCKET_OPTION, AsyncNetworkBackend, AsyncNetworkStream

from workspaces.certificates import trusted
from workspaces.registries.policy import Policy

_IDLE_SECONDS = 2.0
"""Servers close idle connections, many after 5 s. A request that is sent at that moment fails, so the pool is first."""
_MOST_IDLE = 100


class Forbidden(httpcore2.ConnectError):
    """The policy allows no address of the host."""


async def checked_addresses(host: str, port: int, policy: Policy) -> list[str]:
    """The addresses of a host that may be connected to.

    Raises:
        Forbidden: it has none.
        ConnectError: it cannot be resolved.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError("the name cannot be resolved") from error
    addresses = [str(address[0]).partition("%")[0] for *_, address in found]
    if allowed := [text for text in addresses if policy.allows(ip_address(text))]:
        return allowed
    raise Forbidden("the address is in a network that is not allowed")


class _Backend(AsyncNetworkBackend):
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
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
                addresses = await checked_addresses(host, port, self._policy)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("resolving the name took too long") from error
        for last, address in enumerate(addresses, 1 - len(addresses)):
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError:
                if not last:
                    raise
        raise AssertionError("a host has an address")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport whose connections lead to addresses that the policy allows, without proxies.

    `most_idle` connections wait for another request. Each of them makes every request a little slower.
    """

    def __init__(
        self, policy: Policy, *, most_idle: int = _MOST_IDLE, socket_options: Iterable[SOCKET_OPTION] = ()
    ) -> None:
        super().__init__(verify=trusted(), trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trusted(),
            max_connections=None,
            max_keepalive_connections=most_idle,
            keepalive_expiry=_IDLE_SECONDS,
            socket_options=list(socket_options),
            network_backend=_Backend(policy),
        )
