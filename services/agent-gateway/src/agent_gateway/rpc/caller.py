"""Who calls a method at `/rpc`, and by which path."""

from dataclasses import dataclass

from pallas_contracts.turns import Principal


@dataclass(frozen=True, slots=True)
class RpcCaller:
    """The caller of one HTTP request, at the address `url`.

    `team` is that of `/teams/{team}/rpc`, None at `/rpc`. `key` is the header `Idempotency-Key`, `signed` the digest of
    what was signed if the request is.
    """

    principal: Principal
    url: str
    team: str | None = None
    key: str | None = None
    signed: str | None = None
