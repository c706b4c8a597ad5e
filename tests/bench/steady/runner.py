"""A turn that lasts until its caller has seen enough, and says all the time which process executes it."""

import asyncio
import itertools
import os

from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()


@agent.tool("run", "Report this process's id twenty times a second")
async def run(ctx: CallContext, arguments: JsonObject) -> str:
    """Never end."""
    for number in itertools.count(1):
        ctx.progress(number, None, str(os.getpid()))
        await asyncio.sleep(0.05)
    return ""
