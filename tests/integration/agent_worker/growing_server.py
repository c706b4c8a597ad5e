"""The demo server with two more tools: `grow` adds the tool `fresh` and says that the list has changed, `smear` answers
with an image that is none.
"""

import sys

import uvicorn
from mcp.server.mcpserver import Context
from mcp_types import ImageContent

from pallas_demo.server import build_server

server = build_server()


async def fresh() -> str:
    """A tool that exists only after `grow`."""
    return "here I am"


@server.tool()
async def grow(ctx: Context) -> str:
    """Add the tool `fresh`."""
    server.add_tool(fresh)
    await ctx.notify_tools_changed()
    return "grown"


@server.tool(structured_output=False)
async def smear() -> ImageContent:
    """Answer with data that is not base64."""
    return ImageContent(type="image", data="abcde", mime_type="image/png")


if __name__ == "__main__":
    app = server.streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1)
