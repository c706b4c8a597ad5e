"""How a client reaches the server: standard input and output, Streamable HTTP, or the older SSE.

HTTP is for this machine only.
"""

from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

HOST = "127.0.0.1"
_LOCAL = TransportSecuritySettings(
    enable_dns_rebinding_protection=True,
    allowed_hosts=["127.0.0.1:*", "localhost:*"],
    allowed_origins=["http://127.0.0.1:*", "http://localhost:*"],
)


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client, until it closes standard input."""
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


async def serve_http(server: Server[Any], port: int) -> None:
    """Serve `/mcp` until a signal comes."""
    await _serve(server.streamable_http_app(host=HOST, stateless_http=True), port)


async def serve_sse(server: Server[Any], port: int) -> None:
    """Serve `/sse` until a signal comes."""
    transport, security = SseServerTransport("/messages/", _LOCAL), TransportSecurityMiddleware(_LOCAL)

    class Stream:
        """One client; as an object it gets the connection itself."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            refusal = await security.validate_request(Request(scope, receive))
            if refusal is not None:  # the transport itself would raise
                await refusal(scope, receive, send)
                return
            async with transport.connect_sse(scope, receive, send) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

    routes = [Route("/sse", Stream(), methods=["GET"]), Mount("/messages/", app=transport.handle_post_message)]
    await _serve(Starlette(routes=routes), port)


async def _serve(app: ASGIApp, port: int) -> None:
    config = uvicorn.Config(app, host=HOST, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=5)
    await uvicorn.Server(config).serve()
