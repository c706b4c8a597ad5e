"""The connections of downstream servers, over aiohttp: a request takes half the time of httpx2's own transport.

OpenAI's client has such a transport, over which models are called too. What servers answer is not checked against their
schemas: a pattern of theirs may take for ever.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
from mcp.client.session import ClientSession
from mcp_types import CallToolResult

type Managed = Callable[[httpx2.AsyncClient, Any], AbstractAsyncContextManager[Any]]


def over_aiohttp(managed: Managed) -> Managed:
    """What runs a server's client until its connection ends, with the other transport. Proxies keep their own."""
    # Imported before servers are connected: it takes a second, in which their deadlines would pass.
    from openai._vendor.httpx_aiohttp.transport import AiohttpTransport

    def run(client: httpx2.AsyncClient, connection: Any) -> AbstractAsyncContextManager[Any]:
        client._transport = AiohttpTransport(limits=httpx2.Limits(max_connections=100, keepalive_expiry=5.0))
        return managed(client, connection)

    return run


def leave_results_unchecked() -> None:
    """Keep the SDK from checking results with regular expressions of Python, which hold up all turns."""
    ClientSession.validate_tool_result = _unchecked


async def _unchecked(self: ClientSession, name: str, result: CallToolResult) -> None:
    """The result was got by a call that was made, so the model gets it."""
