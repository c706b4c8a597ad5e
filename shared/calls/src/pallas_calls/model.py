"""A call, why it is refused, and how its turn ended."""

from dataclasses import dataclass
from typing import Literal

from pallas_bus.turnlog.cursor import BEGINNING, Cursor
from pallas_contracts.turns import ClientContext, Fault, InputRequired, JsonObject, Principal, Result, TurnOutcome


@dataclass(frozen=True, slots=True)
class Call:
    """A tools/call as it came in, but for its arguments, which are checked apart."""

    tool: str
    client: ClientContext
    principal: Principal
    key: str | None = None
    input_responses: JsonObject | None = None
    request_state: str | None = None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, with the last thing that was said; `place` is how far it has been told.

    `said` None means its content is not there any more.
    """

    outcome: TurnOutcome
    said: Result | InputRequired | Fault | None
    cursor: Cursor = BEGINNING


type Limit = Literal["queue", "caller", "rate", "caller_rate", "store", "broker"]
"""What a busy platform has run out of: places in a queue, in all or of one caller; turns per second, in all or of one
caller; room in the broker; the broker itself."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not executed: a tool error for its caller. `code` is one of `TURN_ERRORS`.

    `turn_id` is set when a turn was made of it, which is cancelled, or left alone if the call had an idempotency key;
    `limit` when the platform is busy.
    """

    code: str
    message: str
    retry_after_ms: int | None = None
    turn_id: str | None = None
    limit: Limit | None = None
