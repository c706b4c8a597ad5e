"""Ids of the events of a handshake-era stream: places in the log of a turn, signed.

An id says all that another replica needs to go on with the stream, and counts only for the caller and at the endpoint
that it was made for.
"""

from pydantic import TypeAdapter, ValidationError

from agent_gateway.handshake.model import FollowedCall, JsonRpcId
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import Rejected
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import Principal

USE = "event"

_SAID = TypeAdapter(tuple[str, str, str, str, str, int, int, JsonRpcId, JsonRpcId | None, str | None])
"""Team, agent, kind and id of the caller; turn, attempt, event; request, progress token and log level."""


def event_id(key: LogKey, call: FollowedCall, cursor: Cursor) -> str:
    """The id of what is told last at `place`."""
    ref, caller = call.ref, call.caller
    whose = (ref.team, ref.agent, caller.type, caller.id)
    wanted = (call.request_id, call.progress_token, call.log_level)
    return key.sign(USE, [*whose, ref.turn_id, *cursor, *wanted])


def read_event_id(key: LogKey, token: str, team: str, agent: str, caller: Principal) -> tuple[FollowedCall, Cursor]:
    """What an id says that `caller` has sent to that agent's endpoint.

    Raises:
        Rejected: it was not made for them. Why is not said.
    """
    try:
        *whose, turn, attempt, event, request_id, progress_token, log_level = _SAID.validate_python(
            key.verify(USE, token)
        )
    except ValidationError:
        raise Rejected("the event id is of another release", code="bad_token") from None
    if whose != [team, agent, caller.type, caller.id]:
        raise Rejected("the event id was made for another stream", code="bad_token")
    call = FollowedCall(TurnRef(team, agent, turn), request_id, progress_token, log_level, caller)
    return call, Cursor(attempt, event)
