"""The same agent on fast-agent, served by its own MCP server: `PORT CONFIG HOME SCOPE AGENT`.

What would cost it time without being asked for is off: displays, logs, the history of an agent and stored sessions.
"""

import asyncio
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Serve the agent as the tool of its name at `/mcp`: `stepper`, or `plain` without servers."""
    port, config, home, scope, agent = sys.argv[1:]
    made: Any = import_module("fast_agent").FastAgent  # in an environment where the type check does not look
    fast = made("peer", config_path=config, home=home, parse_cli_args=False, quiet=True)

    servers, model = (["counter"], None) if agent == "stepper" else ([], "passthrough")

    @fast.agent(agent, instruction="You answer in one sentence.", servers=servers, model=model, use_history=False)
    async def serve() -> None:
        await fast.start_server(transport="http", host="127.0.0.1", port=int(port), instance_scope=scope)

    asyncio.run(serve())


if __name__ == "__main__":
    main()
