"""Calls of an agent at its endpoint by JSON-RPC 2.0, `agent.execute` in a POST, by a client that bounds the answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

import httpx2

from data_pool.reaching.link import LARGEST_ANSWER, BadAnswer, Broken, Link, NotSent, Reply
from pallas_contracts.bounds import JsonObject
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.messages import VERSION, Response, RpcError, read_message
from pallas_jsonrpc.serving import encode
from pallas_jsonrpc.strict_json import loads, read_apart
from pallas_runtime.http import guard
from pallas_runtime.http.guard import Address

_NUMBER = 1
"""The id of the only request in a POST."""
_HEADERS = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}


@dataclass(frozen=True, slots=True)
class EndpointLink(Link):
    """An agent at `url`. Cancelling a call closes its connection, by which the agent can notice it."""

    http: httpx2.AsyncClient
    url: str

    async def call(self, params: JsonObject, connect: float) -> Reply:
        """Call the agent (see `Link`)."""
        request = encode({"jsonrpc": VERSION, "id": _NUMBER, "method": "agent.execute", "params": params})
        timeout = httpx2.Timeout(CONNECT_SECONDS, connect=connect, read=None, pool=None)
        try:
            async with self.http.stream("POST", self.url, content=request, headers=_HEADERS, timeout=timeout) as answer:
                body = await _body(answer)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise NotSent(str(error) or "its endpoint does not answer") from error
        except httpx2.TransportError as error:
            raise Broken("the connection broke during the call") from error
        try:
            response = read_message(await read_apart(loads, body))
        except (Rejected, RpcError) as error:
            raise BadAnswer(_what(answer, error.message)) from None
        if not isinstance(response, Response) or (response.numbered and response.id not in (_NUMBER, None)):
            raise BadAnswer(_what(answer, "it is not the response to the request"))
        return Reply(value=response.result, error=response.error)


async def _body(answer: httpx2.Response) -> bytes:
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise BadAnswer("it is compressed")
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > LARGEST_ANSWER:
            raise BadAnswer(f"it is larger than {LARGEST_ANSWER} bytes")
    return bytes(body)


def _what(answer: httpx2.Response, reason: str) -> str:
    return reason if answer.is_success else f"HTTP status {answer.status_code}: {reason}"


type Network = IPv4Network | IPv6Network

CONNECT_SECONDS = 10.0
_TUNNELS = tuple(map(ip_network, ("2002::/16", "2001::/32", "64:ff9b::/96")))
"""Addresses behind which is another one (6to4, Teredo, NAT64)."""


def is_allowed(address: Address, networks: Iterable[Network]) -> bool:
    """Whether an endpoint may have this address: a public one, or one in `networks`."""
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in network for network in networks):
        return True
    return address.is_global and not address.is_multicast and not any(address in tunnel for tunnel in _TUNNELS)


class GuardedTransport(guard.GuardedTransport):
    """A transport whose connections lead to public addresses, and to those in `networks`."""

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__(lambda address: is_allowed(address, networks))


def guarded_client(transport: httpx2.AsyncBaseTransport) -> httpx2.AsyncClient:
    """A client without proxies and redirects. Reads have no time limit: that of the turn bounds a call."""
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None, pool=None)
    return httpx2.AsyncClient(transport=transport, timeout=timeout, trust_env=False, follow_redirects=False)
