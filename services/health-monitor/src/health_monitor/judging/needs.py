"""The dependencies of an agent: its own servers and model, and those of all agents that it calls, at any depth."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from pallas_contracts.agents import AgentDefinition, Dependency, ModelDependency

OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Needs:
    """The dependencies of an agent and its sub-agents, each once, in the order in which they were found."""

    servers: tuple[Dependency, ...] = ()
    models: tuple[ModelDependency, ...] = ()


def needs_of(definition: AgentDefinition, agents: Mapping[str, AgentDefinition]) -> Needs:
    """Collect over the agents of the same team; `agents` is keyed `{team}.{agent}`.

    A missing sub-agent is skipped, and each agent of a cycle is visited once. The offline model has no dependency.
    """
    servers: dict[str, Dependency] = {}
    models: dict[str, ModelDependency] = {}
    seen: set[str] = set()
    waiting = [definition]
    while waiting:
        current = waiting.pop(0)
        if current.agent in seen:
            continue
        seen.add(current.agent)
        for server in current.dependencies:
            servers.setdefault(server.key, server)
        if current.model is not None and current.model.provider != OFFLINE:
            models.setdefault(model_key(current.model), current.model)
        found = (agents.get(f"{definition.team}.{name}") for name in current.agents)
        waiting += [agent for agent in found if agent is not None]
    return Needs(tuple(servers.values()), tuple(models.values()))


def model_key(model: ModelDependency) -> str:
    """The key of a model's probe: one provider and credential may serve several models."""
    return f"{model.key[:40]}-{hashlib.sha256(model.model.encode()).hexdigest()[:8]}"
