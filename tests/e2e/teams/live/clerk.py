"""An agent in Python, whose tools tests change while it runs."""

from agent_worker.functions import CallContext, FunctionAgent
from pallas_contracts.agents import JsonObject

agent = FunctionAgent()


@agent.tool("file", "Files a paper")
async def file(ctx: CallContext, arguments: JsonObject) -> str:
    """Say that it is done."""
    return "filed"
