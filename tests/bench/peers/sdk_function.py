"""The benchmark's function, served in process by the SDK's low-level server: no queue, no log, no worker."""

import sys

import mcp_types as types
from tests.bench.peers.serving import Context, sdk_app, serve, text_result


async def work(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Report progress five times and answer."""
    for step in range(1, 6):
        await context.session.report_progress(step, 5, f"step {step}")
    return text_result(f"done: {(params.arguments or {})['message']}")


if __name__ == "__main__":
    serve(sdk_app("work", work), int(sys.argv[1]))
