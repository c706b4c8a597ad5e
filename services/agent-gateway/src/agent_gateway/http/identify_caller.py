"""Say who calls: whose the bearer is, or the peer where nobody has to be known, and whether the agent is for them.

Each request is asked about anew: what was granted a moment ago may be taken back by now. The bearer goes nowhere else.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_gateway.metrics import Metrics
from agent_gateway.settings import AuthMode
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.auth import AUTH_FAILURES, ResolveBearer, Resolved
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal

NOT_ALLOWED = "not_allowed"
"""The code of a refusal of somebody who is known."""

LONGEST = 8192
"""Characters of a bearer that the resolver is asked about; it refuses longer ones."""

type Resolve = Callable[[ResolveBearer], Awaitable[Resolved]]


@dataclass
class Callers:
    """Identifies callers. `resolve` asks the resolver."""

    mode: AuthMode
    resolve: Resolve
    metrics: Metrics

    def check_bearer(self, bearer: str | None) -> str | None:
        """What of a request's bearer has to be resolved; None: nothing, and the caller is its peer.

        An empty bearer is one that is not to be found in what was sent.

        Raises:
            Denied: it needs no question to be refused.
        """
        if self.mode == "off" or (bearer is None and self.mode == "optional"):
            return None
        if not bearer:
            raise self._refused("missing")
        if len(bearer) > LONGEST:
            raise self._refused("malformed")
        return bearer

    async def identify_caller(self, bearer: str, *, uses_up: bool) -> Principal:
        """Whose the bearer is. `uses_up` says that a per-turn token counts as used by this.

        Raises:
            Denied: it is refused; the message is the contract's.
            Unavailable: nobody can say right now.
        """
        return (await self.resolve(ResolveBearer(bearer=bearer, uses_up=uses_up))).principal

    def check_allowed(self, definition: AgentDefinition, caller: Principal) -> None:
        """Check that the agent is for the caller.

        Raises:
            Denied: it is not (`not_allowed`), or not without a bearer, and the caller may send one (`missing`).
        """
        if is_allowed(definition, caller):
            return
        if caller.type == "peer" and self.mode != "off":
            raise self._refused("missing")
        self.metrics.caller_refused(definition.team, definition.agent)
        raise Denied(f"This caller may not call the agent {definition.agent!r}.", code=NOT_ALLOWED)

    def _refused(self, reason: str) -> Denied:
        self.metrics.auth_failures.labels(reason).inc()
        return Denied(AUTH_FAILURES[reason], code=reason)


def is_allowed(definition: AgentDefinition, caller: Principal) -> bool:
    """Whether an agent is for a caller: for everybody, or for one whom its list has."""
    allow = definition.allow
    if allow is None or caller.type in allow.types:
        return True
    return (caller.type == "team" and caller.id in allow.teams) or (
        caller.type == "token" and caller.id in allow.tokens
    )
