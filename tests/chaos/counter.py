"""`python -m tests.chaos.counter PORT FILE`: a downstream MCP server whose tool has an effect, which it records."""

import sys
from pathlib import Path

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from tests.chaos.effects import write_down


def build_server(effects: Path) -> MCPServer:
    """Make the server with its one tool."""
    server = MCPServer("counter", version="1.0.0")

    async def count(key: str, seconds: float) -> str:
        """Have an effect, and return after a while."""
        write_down(effects, key)
        await anyio.sleep(seconds)
        return f"{key} counted"

    server.add_tool(count)
    return server


def main() -> None:
    """Serve until killed."""
    port, effects = int(sys.argv[1]), Path(sys.argv[2])
    app = build_server(effects).streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
