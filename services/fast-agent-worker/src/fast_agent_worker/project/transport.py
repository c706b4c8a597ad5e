"""The transports to downstream servers: bounded, and over aiohttp, where a request takes half the time of httpx2's own.

OpenAI's client has such a transport, over which models are called too. What servers answer is not checked against their
schemas: a pattern of theirs may take for ever.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, override

import httpx2
from fast_agent.mcp import client_gateway
from mcp.client.session import ClientSession
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult
from pydantic import ValidationError

from pallas_contracts.valid import valid_json
from pallas_mcp_calls.readable import LINES, ValidBody, is_too_large, read_again
from pallas_mcp_calls.sessions import BoundedTransport, Messages, silence_sdk

type Managed = Callable[[httpx2.AsyncClient, Any], AbstractAsyncContextManager[Any]]


def bound_transports() -> None:
    """Let fast-agent reach servers over bounded transports only, and those over Streamable HTTP over aiohttp."""
    silence_sdk()
    names = client_gateway.__dict__
    names["_managed_http_transport_context"] = _over_aiohttp(names["_managed_http_transport_context"])
    names["sse_client"] = _heard(partial(names["sse_client"], httpx_client_factory=_client_of_sse))
    parameters = names["StdioServerParameters"]
    # "replace": one byte that is no UTF-8 would end the reading.
    names["StdioServerParameters"] = partial(parameters, encoding=LINES, encoding_error_handler="replace")
    names["tracking_stdio_client"] = _heard(names["tracking_stdio_client"])


def _over_aiohttp(managed: Managed) -> Managed:
    """What runs a server's client until its connection ends, with the other transport. Proxies keep their own."""
    # Imported before servers are connected: it takes a second, in which their deadlines would pass.
    from openai._vendor.httpx_aiohttp.transport import AiohttpTransport

    def run(client: httpx2.AsyncClient, connection: Any) -> AbstractAsyncContextManager[Any]:
        client._transport = AiohttpTransport(limits=httpx2.Limits(max_connections=100, keepalive_expiry=5.0))
        return managed(_bounded(client), connection)

    return _heard(run)


def _client_of_sse(**options: Any) -> httpx2.AsyncClient:
    return _bounded(create_mcp_http_client(**options))


def _bounded(client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    client._transport = _Readable(client._transport)
    client._mounts = {to: via and _Readable(via) for to, via in client._mounts.items()}
    return client


class _Readable(BoundedTransport):
    """Makes answers valid. fast-agent wants to know of requests that fail."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        super().__init__(inner, raises=True)

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = ValidBody(response.stream)
        return response


class _Heard(Messages):
    """What comes from a server, up to a line that is too large: then it is connected again."""

    @override
    def usable(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if not isinstance(item, ValidationError):
            return item
        if is_too_large(item):
            raise StopAsyncIteration
        return read_again(item, valid_json)


def _heard[**P](make: Callable[P, AbstractAsyncContextManager[Any]]) -> Callable[P, AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def transport(*arguments: P.args, **options: P.kwargs) -> AsyncGenerator[tuple[Any, Any]]:
        async with make(*arguments, **options) as (read, write):
            yield _Heard(read), write

    return transport


def leave_results_unchecked() -> None:
    """Keep the SDK from checking results with regular expressions of Python, which hold up all turns."""
    ClientSession.validate_tool_result = _unchecked


async def _unchecked(self: ClientSession, name: str, result: CallToolResult) -> None:
    """The result was got by a call that was made, so the model gets it."""
