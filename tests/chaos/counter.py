"""`python -m tests.chaos.counter PORT EFFECTS CALLS`: a downstream MCP server that records what it is asked.

Its tool `count` has an effect. Its tool `look` has none and may be called again, as its annotations say.
"""

import sys
from pathlib import Path

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from tests.chaos.effects import write_down


def build_server(effects: Path, calls: Path) -> MCPServer:
    """Make the server with its tools."""
    server = MCPServer("counter", version="1.0.0")

    async def count(key: str, seconds: float) -> str:
        """Have an effect, and return after a while."""
        write_down(effects, key)
        await anyio.sleep(seconds)
        return f"{key} counted"

    async def look(key: str, seconds: float) -> str:
        """Return after a while."""
        write_down(calls, key)
        await anyio.sleep(seconds)
        return f"{key} seen"

    server.add_tool(count)
    server.add_tool(look, annotations=ToolAnnotations(read_only_hint=True))
    return server


def main() -> None:
    """Serve until killed."""
    port, effects, calls = sys.argv[1:]
    app = build_server(Path(effects), Path(calls)).streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
