"""Who has given a task (`fleet-mcp-tools.md`, "Status Enums"). MCP does not say whether a caller is a person."""

from dataclasses import dataclass

from pallas_contracts.fleet import TaskSource
from pallas_executor.agent_runtime import Turn


@dataclass(frozen=True)
class Sources:
    """`ai_tokens` are the ids of tokens whose holders are programs."""

    ai_tokens: frozenset[str]

    def of(self, turn: Turn) -> TaskSource:
        """The source of a task that is started in this turn.

        Agents, pipelines, teams and callers without a bearer are programs; users and holders of tokens are people.
        """
        caller = turn.principal
        if turn.depth or caller.type in ("team", "turn", "peer"):
            return "ai_controller"
        return "ai_controller" if caller.id in self.ai_tokens else "human"
