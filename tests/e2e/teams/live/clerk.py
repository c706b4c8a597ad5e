"""An agent in Python, whose tools tests change while it runs."""

from pallas_contracts.agents import JsonObject
from pallas_hosting.functions import CallContext, FunctionAgent

agent = FunctionAgent()


@agent.tool("file", "Files a paper")
async def file(ctx: CallContext, arguments: JsonObject) -> str:
    """Say that it is done."""
    return "filed"
