"""Whose a coding agent is, and who gave a task. It belongs to the user or caller who made it; nobody else sees it."""

from dataclasses import dataclass

from pallas_contracts.agents import Allow
from pallas_contracts.fleet import FleetAgent, TaskSource
from pallas_contracts.turns import Principal
from pallas_turns.runtime import Turn

ANONYMOUS = "peer"


def owner_of(caller: Principal) -> str:
    """The caller as an owner. All without a bearer are one: their addresses tell no people apart."""
    return ANONYMOUS if caller.type == "peer" else caller.owner


@dataclass(frozen=True)
class Owners:
    """`operators` may use every agent. One that nobody made here is theirs, and that of callers without a bearer."""

    operators: Allow

    def may_use(self, caller: Principal, entry: FleetAgent | None) -> bool:
        """Whether a caller may see and use the agent of an entry."""
        owner = (entry.owner if entry is not None else None) or ANONYMOUS
        return owner == owner_of(caller) or self.operators.has(caller)


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
