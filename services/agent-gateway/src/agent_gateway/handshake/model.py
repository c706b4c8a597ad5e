"""A call of the handshake era that became a turn."""

from dataclasses import dataclass

from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.turns import Principal

type JsonRpcId = str | int


@dataclass(frozen=True, slots=True)
class FollowedCall:
    """Which turn a handshake-era call became, and which progress, log messages and text its caller wants.

    `tool` is the name of the tool if it has an output schema, which its answer is checked against.
    """

    ref: TurnRef
    request_id: JsonRpcId
    progress_token: JsonRpcId | None
    log_level: str | None
    caller: Principal
    text: bool = False
    tool: str | None = None
