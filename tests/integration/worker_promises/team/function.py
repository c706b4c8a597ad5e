"""Calls the tools that the message names: JSON, a list of `[tool, arguments]`."""

import json

from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()


@agent.tool("call", "Call tools", input_schema={"type": "object"})
async def call(ctx: CallContext, arguments: JsonObject) -> str:
    """Call them one after another. The answer is that of the last one; without calls, the history."""
    answer = str(arguments.get("history"))
    for tool, given in json.loads(arguments["message"]):
        answer = (await ctx.call_tool("bench", tool, given))["content"][0]["text"]
    return answer
