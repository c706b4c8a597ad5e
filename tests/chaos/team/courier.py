"""A function of several steps: one that may not be made again, one that may, and a tool. Each is counted."""

import asyncio
import os

from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()

_SCHEMA = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "seconds": {"type": "number"}, "steps": {"type": "integer"}},
    "required": ["key", "seconds", "steps"],
}


@agent.tool("carry", "Take several steps", input_schema=_SCHEMA, correlation="key")
async def carry(ctx: CallContext, arguments: JsonObject) -> str:
    """Take `seconds` for `steps` steps; their numbers are those of the calls in the turn."""
    key, steps, seconds = arguments["key"], arguments["steps"], arguments["seconds"] / arguments["steps"]
    for step in range(1, steps + 1):
        name = f"{key}/{step}"
        match step % 3:
            case 1:
                await ctx.step("load", _work, "CHAOS_EFFECTS", name, seconds)
            case 2:
                await ctx.step("look", _work, "CHAOS_CALLS", name, seconds, retry="safe")
            case _:
                await ctx.call_tool("counter", "count", {"key": name, "seconds": seconds})
    return f"{key} done"


async def _work(file: str, name: str, seconds: float) -> str:
    """Write one whole line down, and take some time."""
    handle = os.open(os.environ[file], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{name} - -\n".encode())
    finally:
        os.close(handle)
    await asyncio.sleep(seconds)
    return name
