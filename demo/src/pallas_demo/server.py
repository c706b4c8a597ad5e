"""The demo team's MCP server: tools that add, look up a term, report progress, and fail.

They need no network, so the demo, the tests and the benchmarks run offline.
"""

import logging

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from pallas_demo.glossary import GLOSSARY

log = logging.getLogger(__name__)


async def add(a: float, b: float) -> str:
    """Add two numbers."""
    return f"{a + b:g}"


async def look_up(term: str) -> str:
    """Explain a word of Pallas from a small built-in glossary."""
    known = GLOSSARY.get(term.strip().lower())
    if known is None:
        raise ToolError(f"{term!r} is not in the glossary; it knows {', '.join(sorted(GLOSSARY))}")
    return known


async def long_task(ctx: Context, seconds: float = 2.0, steps: int = 4) -> str:
    """Work for some seconds and report progress after each step."""
    log.info("long_task started")
    try:
        for step in range(1, steps + 1):
            await anyio.sleep(seconds / steps)
            await ctx.report_progress(step, steps, f"step {step} of {steps}")
    except anyio.get_cancelled_exc_class():
        log.info("long_task cancelled")
        raise
    return f"done after {steps} steps"


async def fail(message: str = "as asked") -> str:
    """Fail with the message given."""
    raise ToolError(message)


def build_server() -> MCPServer:
    """Make the server with its four tools."""
    server = MCPServer("pallas-demo", version="0.1.0", instructions="Small tools to try Pallas with.")
    for tool in (add, look_up, long_task, fail):
        server.add_tool(tool)
    return server
