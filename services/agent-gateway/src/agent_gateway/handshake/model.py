"""A call of the handshake era that became a turn."""

from dataclasses import dataclass

from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.turns import Principal

type JsonRpcId = str | int


@dataclass(frozen=True, slots=True)
class FollowedCall:
    """A handshake-era call that became a turn: which one, and how its caller wants to be told of it."""

    ref: TurnRef
    request_id: JsonRpcId
    progress_token: JsonRpcId | None
    log_level: str | None
    caller: Principal
