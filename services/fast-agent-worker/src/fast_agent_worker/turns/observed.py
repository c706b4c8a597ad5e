"""Observes the agents of a turn, with their models and tools, also those that fast-agent makes in the middle of it."""

from typing import Any

from fast_agent.agents.tool_agent import ToolAgent

from fast_agent_worker.turns.models import ObservedModel
from fast_agent_worker.turns.scope import TurnScope
from fast_agent_worker.turns.tools import ObservedTools


def observed_factory(factory: Any, scope: TurnScope) -> Any:
    """A function that makes models for agents, as `factory` does, and observes both."""

    def for_model(model: str | None = None) -> Any:
        make = factory(model=model)

        def for_agent(agent: Any, **options: Any) -> Any:
            llm = make(agent=agent, **options)
            observed = ObservedModel(agent, llm, scope)
            if isinstance(agent, ToolAgent):
                ObservedTools(agent, observed, scope)
            return llm

        return for_agent

    return for_model
