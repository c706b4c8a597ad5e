"""Connections on behalf of others, which may lead to some addresses only.

A name is resolved once for each connection, its addresses are checked, and the connection is made to a checked one: a
name that resolves differently later (DNS rebinding) changes nothing. TLS still checks the name. Services that use this
depend on `pallas-runtime[guard]`.

Also whose requests a listener serves: the hosts that it accepts, and the proxies whose word for a caller it trusts.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address
from ssl import SSLContext
from typing import Any

import httpcore2
import httpx2
from httpcore2 import SOCKET_OPTION, AsyncNetworkBackend, AsyncNetworkStream

type Address = IPv4Address | IPv6Address
type Allows = Callable[[Address], bool]
"""Whether a connection to an address may be made."""

_IDLE_SECONDS = 2.0
"""Servers close idle connections, many after 5 s. A request that is sent at that moment fails, so the pool is first."""
_MOST_IDLE = 100


class Forbidden(httpcore2.ConnectError):
    """No address of the host may be connected to."""


async def checked_addresses(host: str, port: int, allows: Allows) -> list[str]:
    """The addresses of a host that may be connected to.

    Raises:
        Forbidden: it has none.
        ConnectError: it cannot be resolved.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore2.ConnectError("the name cannot be resolved") from error
    addresses = [str(address[0]) for *_, address in found]
    if allowed := [text for text in addresses if allows(ip_address(text.partition("%")[0]))]:
        return allowed
    raise Forbidden("the address is in a network that is not allowed")


class _Backend(AsyncNetworkBackend):
    def __init__(self, allows: Allows) -> None:
        self._allows = allows
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
                addresses = await checked_addresses(host, port, self._allows)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout("resolving the name took too long") from error
        *others, last = addresses
        for address in others:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError:
                continue
        return await self._inner.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport whose connections lead to allowed addresses, without proxies.

    `most_idle` connections wait for another request. Each of them makes every request a little slower.
    """

    def __init__(
        self,
        allows: Allows,
        *,
        ssl_context: SSLContext | None = None,
        most_idle: int = _MOST_IDLE,
        socket_options: Iterable[SOCKET_OPTION] = (),
    ) -> None:
        context = ssl_context or httpx2.create_ssl_context(trust_env=False)
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=None,
            max_keepalive_connections=most_idle,
            keepalive_expiry=_IDLE_SECONDS,
            socket_options=list(socket_options),
            network_backend=_Backend(allows),
        )
