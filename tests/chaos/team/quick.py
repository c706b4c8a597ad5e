"""A function that answers at once and has no effect."""

from pallas_hosting.functions import CallContext, FunctionAgent, JsonObject

agent = FunctionAgent()

_SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


@agent.tool("answer", "Answer at once", input_schema=_SCHEMA, correlation="key")
async def answer(ctx: CallContext, arguments: JsonObject) -> str:
    """Say one thing and answer."""
    ctx.progress(1, 1, f"{arguments['key']} attempt {ctx.turn.attempt} step 1")
    return f"{arguments['key']} done by attempt {ctx.turn.attempt}"
