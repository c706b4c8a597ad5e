"""The prompts of the agent (RFC-018, "MCP Prompts"), with the modules that the caller may use."""

from pallas_cst import documents, prompts
from pallas_cst.resources import completions
from pallas_executor.functions.agent import FunctionAgent
from pallas_executor.functions.context import ReadContext
from pipelines.agent.tools import Handlers
from pipelines.storing.namespaces import Caller


def add_prompts(agent: FunctionAgent, handlers: Handlers) -> None:
    """Register both prompts, and the completions of an error's code."""

    async def write(ctx: ReadContext, given: dict[str, str]) -> str:
        caller = Caller.of(handlers.scopes, ctx.principal)
        modules = prompts.modules_text(handlers.modules.documents(caller.principal))
        return prompts.write_pipeline(given["goal"], given.get("available_inputs"), modules)

    async def debug(ctx: ReadContext, given: dict[str, str]) -> str:
        return prompts.debug_pipeline(given["source"], given["error"])

    for name, get in ((prompts.WRITE, write), (prompts.DEBUG, debug)):
        description, arguments = prompts.PROMPTS[name]
        described = [
            {"name": each.name, "description": each.description, "required": each.required} for each in arguments
        ]
        agent.prompt(name, description, arguments=described)(get)

    @agent.completion(prompts.DEBUG)
    async def complete(ctx: ReadContext, argument: str, typed: str) -> list[str]:
        return completions(documents.errors(), typed) if argument == "error" else []
