"""A server that stands for those of the examples: `python serve.py PORT`. Its tools answer the same each time."""

import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("stand-in", instructions="This stands for the real one.")


@server.tool()
def first(text: str) -> str:
    """Use the first tool."""
    return f"it was given {text}"


@server.tool()
def second(number: int = 1) -> str:
    """Use the second tool."""
    return f"it counted to {number}"


if __name__ == "__main__":
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
