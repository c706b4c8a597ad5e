"""How the peers are served: one uvicorn process on loopback with the same loop, parser and checks as the gateway."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import uvicorn
import uvloop
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

type Context = ServerRequestContext[Any, Any]
type CallTool = Callable[[Context, types.CallToolRequestParams], Awaitable[types.CallToolResult]]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}


def serve(app: ASGIApp, port: int) -> None:
    """Serve until a signal."""
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)
    uvloop.run(uvicorn.Server(config).serve())


def sdk_app(tool: str, call_tool: CallTool, path: str = "/mcp", *, stateless: bool = True) -> Starlette:
    """The SDK's low-level server with one tool: Streamable HTTP at `path`, events as they come."""
    listed = types.Tool(name=tool, description="measured", input_schema=SCHEMA)

    async def list_tools(_context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[listed])

    server = Server[Any](
        "peer",
        version="1.0.0",
        get_tool_input_schema=lambda _name: SCHEMA,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    security = TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=["127.0.0.1:*"])
    manager = StreamableHTTPSessionManager(server, stateless=stateless, json_response=False, security_settings=security)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    app = Starlette(lifespan=lifespan)

    class Endpoint:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await manager.handle_request(scope, receive, send)

    app.add_route(path, Endpoint(), methods=["POST", "GET", "DELETE"])  # pyright: ignore[reportArgumentType] - any ASGI application is a route's endpoint
    return app


def text_result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    """A result with one text block."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)
