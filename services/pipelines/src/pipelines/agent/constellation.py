"""The agent: its tools, resources, prompts and completions."""

from pallas_executor.functions.agent import FunctionAgent
from pipelines.agent.prompts import add_prompts
from pipelines.agent.resources import add_resources
from pipelines.agent.tools import Handlers, add_tools


def make_agent(handlers: Handlers) -> FunctionAgent:
    """The agent with everything that it offers, in the order in which it is listed."""
    agent = FunctionAgent()
    add_tools(agent, handlers)
    add_resources(agent, handlers)
    add_prompts(agent, handlers)
    return agent
