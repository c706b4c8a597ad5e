"""The caller of a request, as turns and the log name it."""

from starlette.types import Scope

from pallas_contracts.turns import Principal

_IDENTIFIED = "pallas.principal"


def principal_of(scope: Scope) -> Principal:
    """The caller of a request: the owner of its bearer, or else the address it comes from (`peers.name_caller`)."""
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
