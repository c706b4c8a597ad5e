"""The agent: its tools, resources, prompts and completions."""

from pallas_executor.functions.agent import FunctionAgent
from pipelines.agent.tools import add_checks, add_executions, add_modules
from pipelines.handlers.check_program import CheckProgram
from pipelines.handlers.list_modules import ListModules


def make_agent(programs: CheckProgram, modules: ListModules) -> FunctionAgent:
    """The agent with everything that it offers, in the order in which it is listed."""
    agent = FunctionAgent()
    add_checks(agent, programs)
    add_executions(agent)
    add_modules(agent, modules)
    return agent
