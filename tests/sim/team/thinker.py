"""A turn that takes as long as the environment says."""

import asyncio
import os

from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()


@agent.tool("thinker", "Take a while")
async def think(ctx: CallContext, arguments: JsonObject) -> str:
    """Answer after a while."""
    await asyncio.sleep(float(os.environ["SIMULATED_SECONDS"]))
    return "thought"
