"""A team folder as a worker hosts it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pallas_contracts.agents import AgentDefinition
from pallas_executor.agent_runtime import HostedAgent


class TeamRuntime(Protocol):
    """What all agents of a team share: pooled connections and model clients."""

    async def close(self) -> None:
        """Close everything. No turn may run."""
        ...

    def stdio_health(self) -> dict[str, str | None]:
        """What is wrong with each stdio dependency, by its key; None when it answers."""
        ...

    def lacks(self) -> dict[str, str]:
        """What agents lack now of what they share, such as tools of a server."""
        ...


@dataclass(frozen=True, slots=True)
class HostedTeam:
    """The agents of one team folder. `failed` maps agents that could not be started to the reason.

    `unstarted` are their definitions as far as known: without the tools of a module that cannot be loaded.
    """

    team: str
    version: str
    agents: Sequence[HostedAgent]
    shared: TeamRuntime
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unstarted: Sequence[AgentDefinition] = ()
