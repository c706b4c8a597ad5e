"""Functions that have one effect on the way, written down where the platform cannot see it; one reports its steps."""

import asyncio
import os

from pallas_contracts.turns import Result
from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()

_SCHEMA = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "seconds": {"type": "number"}, "steps": {"type": "integer"}},
    "required": ["key", "seconds", "steps"],
}

_NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
_SUM = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "seconds": {"type": "number"}, "number": {"type": "integer"}},
    "required": ["key", "seconds", "number"],
}


@agent.tool("append", "Write a line down once", input_schema=_SCHEMA, correlation="key")
async def append(ctx: CallContext, arguments: JsonObject) -> str:
    """Take `seconds` for `steps` steps; the effect is behind the middle one."""
    key, steps, attempt = arguments["key"], arguments["steps"], ctx.turn.attempt
    for step in range(1, steps + 1):
        await asyncio.sleep(arguments["seconds"] / steps)
        ctx.progress(step, steps, f"{key} attempt {attempt} step {step}")
        if step == (steps + 1) // 2:
            await ctx.side_effect("append")
            _write_down(f"{key} {ctx.turn.turn_id} {attempt}\n")
    return f"{key} done by attempt {attempt}"


@agent.tool("add", "Add one to a number once", input_schema=_SUM, output_schema=_NUMBER, correlation="key")
async def add(ctx: CallContext, arguments: JsonObject) -> Result:
    """Have the effect in the middle of `seconds`."""
    half = arguments["seconds"] / 2
    await asyncio.sleep(half)
    await ctx.side_effect("add")
    _write_down(f"{arguments['key']} {ctx.turn.turn_id} {ctx.turn.attempt}\n")
    await asyncio.sleep(half)
    return Result(structured={"number": arguments["number"] + 1})


def _write_down(line: str) -> None:
    """One whole line at the end of the file, on the disk before this returns."""
    handle = os.open(os.environ["CHAOS_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
