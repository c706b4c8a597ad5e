"""`python -m tests.integration.agent_gateway.effects_server FILE PORT`: an MCP server whose tools have an effect.

An effect is a line in the file. `slow` has its effect at once and answers when there is a file of the name `go`.
"""

import sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from tests.waiting import eventually


def build_server(effects: Path) -> MCPServer:
    """Make the server with its tools."""
    server = MCPServer("effects", version="1.0.0")

    def write(key: str) -> None:
        with effects.open("a", encoding="utf-8") as file:
            file.write(f"{key}\n")

    async def note(key: str) -> str:
        """Have an effect."""
        write(key)
        return f"{key} noted"

    async def slow(key: str) -> str:
        """Have an effect, and answer later."""
        write(key)
        await eventually(effects.with_name("go").exists)
        return f"{key} noted late"

    server.add_tool(note)
    server.add_tool(slow)
    server.add_tool(slow, name="slow_again", annotations=ToolAnnotations(idempotent_hint=True))
    return server


def main() -> None:
    """Serve until killed."""
    app = build_server(Path(sys.argv[1])).streamable_http_app(host="127.0.0.1")
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
