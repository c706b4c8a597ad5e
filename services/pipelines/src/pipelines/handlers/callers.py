"""Who calls, with what it may do."""

from dataclasses import dataclass

from pallas_contracts.turns import Principal
from pipelines.storing.namespaces import Caller
from pipelines.storing.scopes import Scope, Scopes


@dataclass(frozen=True)
class Callers:
    """Makes callers from principals by the settings."""

    scopes: Scopes

    def of(self, principal: Principal, label: str | None = None, needed: Scope = Scope.READ) -> Caller:
        """The caller, if it has a scope. `label` is its own word for itself (`X-Constellation-Agent`).

        Raises:
            Denied: it has not (`scope`).
        """
        caller = Caller(principal, label, self.scopes.scope_of(principal))
        caller.check(needed)
        return caller
