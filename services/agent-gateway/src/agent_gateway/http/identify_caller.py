"""Identify the caller of a request, and check that it may call the agent."""

from dataclasses import dataclass

from agent_gateway.metrics import Metrics
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal
from pallas_runtime.http.bearers import Bearers

NOT_ALLOWED = "not_allowed"
"""The code with which an identified caller is refused."""


@dataclass
class Callers(Bearers):
    """Identifies callers, and knows what they may call."""

    metrics: Metrics

    def check_allowed(self, definition: AgentDefinition, caller: Principal) -> None:
        """Check that the caller may call the agent.

        Raises:
            Denied: it may not (`not_allowed`), or only with a bearer, which it has not sent (`missing`).
        """
        if definition.allows(caller):
            return
        if caller.type == "peer" and self.mode != "off":
            raise self.refused("missing")
        self.metrics.caller_refused(definition.team, definition.agent)
        raise Denied(f"This caller may not call the agent {definition.agent!r}.", code=NOT_ALLOWED)
