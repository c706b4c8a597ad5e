"""Identify the caller of a request by its bearer, or else by its address, and check that it may call the agent.

The bearer of every request is resolved again, because a grant may have been revoked since the last one. A bearer is
sent to the resolver only.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_gateway.metrics import Metrics
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.auth import AUTH_FAILURES, LONGEST_BEARER, ResolveBearer, Resolved
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal
from pallas_runtime.auth_mode import AuthMode

NOT_ALLOWED = "not_allowed"
"""The code with which an identified caller is refused."""

type Resolve = Callable[[ResolveBearer], Awaitable[Resolved]]


@dataclass
class Callers:
    """Identifies callers; `resolve` calls the resolver."""

    mode: AuthMode
    resolve: Resolve
    metrics: Metrics

    def check_bearer(self, bearer: str | None) -> str | None:
        """Return the bearer to resolve, or None when the caller is identified by its address.

        An empty bearer means that the `Authorization` header holds none.

        Raises:
            Denied: the bearer is missing or malformed.
        """
        if self.mode == "off" or (bearer is None and self.mode == "optional"):
            return None
        if not bearer:
            raise self._refused("missing")
        if len(bearer) > LONGEST_BEARER:
            raise self._refused("malformed")
        return bearer

    async def identify_caller(self, bearer: str, *, uses_up: bool) -> Principal:
        """Return the owner of the bearer. `uses_up`: a per-turn token is used up by this request.

        Raises:
            Denied: the bearer is refused; the message is that of the contract.
            Unavailable: the resolver does not answer.
        """
        return (await self.resolve(ResolveBearer(bearer=bearer, uses_up=uses_up))).principal

    def check_allowed(self, definition: AgentDefinition, caller: Principal) -> None:
        """Check that the caller may call the agent.

        Raises:
            Denied: it may not (`not_allowed`), or only with a bearer, which it has not sent (`missing`).
        """
        if definition.allows(caller):
            return
        if caller.type == "peer" and self.mode != "off":
            raise self._refused("missing")
        self.metrics.caller_refused(definition.team, definition.agent)
        raise Denied(f"This caller may not call the agent {definition.agent!r}.", code=NOT_ALLOWED)

    def _refused(self, reason: str) -> Denied:
        self.metrics.auth_failures.labels(reason).inc()
        return Denied(AUTH_FAILURES[reason], code=reason)
