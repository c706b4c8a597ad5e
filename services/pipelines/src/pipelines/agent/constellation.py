"""The agent `pipelines/constellation`: its tools, resources, prompts and completions, and its definition."""

from pallas_contracts.agents import AgentDefinition, ResourceDefinition
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM
from pallas_contracts.message import utc_now
from pallas_executor.functions.agent import FunctionAgent
from pipelines.agent.prompts import add_prompts
from pipelines.agent.resources import add_resources
from pipelines.agent.tools import Handlers, add_tools
from pipelines.storing.publishing import LIMITS


def make_agent(handlers: Handlers) -> FunctionAgent:
    """The agent with everything that it offers, in the order in which it is listed."""
    agent = FunctionAgent()
    add_tools(agent, handlers)
    add_resources(agent, handlers)
    add_prompts(agent, handlers)
    return agent


def definition_of(agent: FunctionAgent) -> AgentDefinition:
    """The definition; its revision is set when it is published."""
    return AgentDefinition(
        team=PIPELINES_TEAM,
        agent=CONSTELLATION,
        kind="pipeline",
        title="Constellation",
        description="Checks, stores and executes pipelines: typed programs whose modules are the tools of all agents.",
        version="1.0.0",
        tools=tuple(tool.definition for tool in agent.tools.values()),
        prompts=tuple(prompt.definition for prompt in agent.prompts.values()),
        resources=tuple(_listed(resource.definition) for resource in agent.resources.values()),
        completes=bool(agent.completers),
        limits=LIMITS,
        retry="safe",
        updated_at=utc_now(),
    )


def _listed(resource: ResourceDefinition) -> ResourceDefinition:
    """A template as RFC-018 has it. What is read matches `{+ref}`, so a `/` need not be encoded."""
    return resource.model_copy(update={"uri": resource.uri.replace("{+", "{")})
