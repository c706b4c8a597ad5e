"""An equal tool on FastMCP: five progress notifications, the same answer, stateless Streamable HTTP."""

# FastMCP is there only where the group `bench` is installed, which the type check does not ask for.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import sys

from fastmcp import Context, FastMCP
from tests.bench.peers.serving import serve


async def work(message: str, ctx: Context) -> str:
    """Report progress five times and answer."""
    for step in range(1, 6):
        await ctx.report_progress(step, 5, f"step {step}")
    return f"done: {message}"


def main() -> None:
    """Serve the tool at `/mcp`."""
    server = FastMCP("peer", version="1.0.0")
    server.tool(work, output_schema=None)
    serve(server.http_app(path="/mcp", stateless_http=True), int(sys.argv[1]))


if __name__ == "__main__":
    main()
