"""Whose a coding agent is: it belongs to the user, or the caller, who has made it, and to nobody else it exists."""

from dataclasses import dataclass

from pallas_contracts.agents import Allow
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.turns import Principal

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
