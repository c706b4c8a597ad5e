"""The demo server with one more tool, `grow`, which adds the tool `fresh` and says that the list has changed."""

import sys

import uvicorn
from mcp.server.mcpserver import Context

from pallas_demo.server import build_server

server = build_server()


async def fresh() -> str:
    """Answer that it is there."""
    return "here I am"


@server.tool()
async def grow(ctx: Context) -> str:
    """Add the tool `fresh`."""
    server.add_tool(fresh)
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    app = server.streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1)
