"""Who sends a request, as the log knows callers."""

from starlette.types import Scope

from pallas_contracts.turns import Principal


def principal_of(scope: Scope) -> Principal:
    """The caller of a request: without authentication, the address it comes from (`peers.name_caller`)."""
    peer = scope.get("client")
    return Principal(type="peer", id=peer[0] if peer else "unknown")
