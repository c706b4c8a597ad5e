"""Calls of an agent at its endpoint by JSON-RPC 2.0: `agent.execute` in a POST."""

from dataclasses import dataclass

import httpx2

from data_pool.reaching.guard import CONNECT_SECONDS
from data_pool.reaching.link import LARGEST_ANSWER, BadAnswer, Broken, Link, NotSent, Reply
from pallas_contracts.bounds import JsonObject
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.errors import RpcError
from pallas_jsonrpc.messages import VERSION, Response, read_message
from pallas_jsonrpc.serving import encode
from pallas_jsonrpc.strict_json import loads, read_apart

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
