"""Event ids of a handshake-era stream: signed cursors in the log of a turn.

An id holds all that another gateway needs to resume the stream. It is valid only for the caller and the endpoint that
it was made for.
"""

from pydantic import TypeAdapter, ValidationError

from agent_gateway.handshake.model import FollowedCall, JsonRpcId
from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import Rejected
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import Principal

USE = "event"

_CLAIMS = TypeAdapter(
    tuple[str, str, str, str, str, int, int, JsonRpcId, JsonRpcId | None, str | None]
    | tuple[str, str, str, str, str, int, int, JsonRpcId, JsonRpcId | None, str | None, bool]
    | tuple[str, str, str, str, str, int, int, JsonRpcId, JsonRpcId | None, str | None, bool, str]
)
"""Team, agent, kind and id of the caller; turn, attempt, event; request, progress token and log level; text; tool."""


def event_id(key: LogKey, call: FollowedCall, cursor: Cursor) -> str:
    """The id of the event at `cursor` on the stream of `call`."""
    ref, caller = call.ref, call.caller
    audience = (ref.team, ref.agent, caller.type, caller.id)
    request = (call.request_id, call.progress_token, call.log_level)
    more = (call.text, call.tool) if call.tool is not None else (True,) if call.text else ()
    return key.sign(USE, [*audience, ref.turn_id, *cursor, *request, *more])


def read_event_id(key: LogKey, token: str, team: str, agent: str, caller: Principal) -> tuple[FollowedCall, Cursor]:
    """The call and the cursor of an event id that `caller` has sent to the endpoint of `agent`.

    Raises:
        Rejected: the id was not made for this caller and endpoint (`bad_token`).
    """
    try:
        claims = _CLAIMS.validate_python(key.verify(USE, token))
    except ValidationError:
        raise Rejected("the event id is of another release", code="bad_token") from None
    audience, (turn, attempt, event, request_id, progress_token, log_level) = claims[:4], claims[4:10]
    text, tool = (len(claims) > 10 and claims[10]), (claims[11] if len(claims) > 11 else None)
    if audience != (team, agent, caller.type, caller.id):
        raise Rejected("the event id was made for another stream", code="bad_token")
    call = FollowedCall(TurnRef(team, agent, turn), request_id, progress_token, log_level, caller, text, tool)
    return call, Cursor(attempt, event)
