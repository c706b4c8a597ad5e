"""The function agent of the benchmark. The peers serve the same functions with their own means of progress."""

import asyncio

from pallas_executor.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()

SCHEMA = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}


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
