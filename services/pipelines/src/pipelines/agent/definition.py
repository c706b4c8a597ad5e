"""The definition of the agent `pipelines/constellation`."""

from pallas_contracts.agents import AgentDefinition, ResourceDefinition
from pallas_contracts.catalog import CONSTELLATION, PIPELINES_TEAM
from pallas_contracts.message import utc_now
from pallas_executor.functions.agent import FunctionAgent
from pipelines.storing.publishing import LIMITS


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
