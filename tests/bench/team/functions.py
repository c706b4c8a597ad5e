"""The function agent of the benchmark. The peers serve the same functions with their own means of progress."""

import asyncio

from pallas_contracts.turns import Result
from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}

_NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@agent.tool("work", "Report progress five times", input_schema=SCHEMA)
async def work(ctx: CallContext, arguments: JsonObject) -> str:
    """Do nothing but say so."""
    for step in range(1, 6):
        ctx.progress(step, 5, f"step {step}")
    return f"done: {arguments['message']}"


@agent.tool("wait", "Report progress once and wait", input_schema=SCHEMA)
async def wait(ctx: CallContext, arguments: JsonObject) -> str:
    """Wait for as many seconds as the message says."""
    ctx.progress(1, 2, "waiting")
    await asyncio.sleep(float(arguments["message"]))
    return "waited"


@agent.tool("add", "Add one to a number", input_schema=_NUMBER, output_schema=_NUMBER)
async def add(ctx: CallContext, arguments: JsonObject) -> Result:
    """The module of a pipeline."""
    return Result(structured={"number": arguments["number"] + 1})


@agent.tool("add_slowly", "Add one to a number, in 50 ms", input_schema=_NUMBER, output_schema=_NUMBER)
async def add_slowly(ctx: CallContext, arguments: JsonObject) -> Result:
    """One that takes its time."""
    await asyncio.sleep(0.05)
    return Result(structured={"number": arguments["number"] + 1})
