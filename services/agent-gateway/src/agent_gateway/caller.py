"""The caller of a request, as turns and the log name it; what it may call; and the dedicated port that it came by."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from agent_gateway.metrics import Metrics
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal
from pallas_runtime.http.bearers import Bearers

_IDENTIFIED = "pallas.principal"


def principal_of(scope: Scope) -> Principal:
    """The caller of a request: the owner of its bearer, or else the address it comes from (`name_caller`)."""
    known = scope.get(_IDENTIFIED)
    return known if isinstance(known, Principal) else _peer(scope)


def identify(scope: Scope, caller: Principal | None) -> Principal:
    """Store the caller in the scope, remove the bearer from the headers, and return the caller.

    Without a `caller` it is the address the request comes from.
    """
    scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
    if caller is not None:
        scope[_IDENTIFIED] = caller
    return principal_of(scope)


def _peer(scope: Scope) -> Principal:
    peer = scope.get("client")
    return Principal(type="peer", id=peer[0] if peer else "unknown")


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


_SCOPE_KEY = "pallas.dedicated_port"


@dataclass
class DedicatedPort:
    """The application of one listener. `released` means that the listener is closing."""

    serve: Callable[[Scope, Receive, Send], Awaitable[None]]
    released: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        scope[_SCOPE_KEY] = self
        await self.serve(scope, receive, send)


def is_released(scope: Scope) -> bool:
    """Whether the listener of a request is closing, so that the request may be cut off."""
    port = scope.get(_SCOPE_KEY)
    return isinstance(port, DedicatedPort) and port.released
