"""The input and the results of a call: the call, the end of its turn, a refusal."""

from dataclasses import dataclass
from typing import Literal

from pallas_bus.turnlog.cursor import BEGINNING, Cursor
from pallas_contracts.turns import (
    ClientContext,
    Fault,
    InputRequired,
    JsonObject,
    Principal,
    Result,
    TurnError,
    TurnOutcome,
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it was received, without its arguments. `task` is the caller's id of the task that it belongs to."""

    tool: str
    client: ClientContext
    principal: Principal
    key: str | None = None
    task: str | None = None
    input_responses: JsonObject | None = None
    request_state: str | None = None


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended. `answer` is None when the content has expired; `cursor` is the one of the last event."""

    outcome: TurnOutcome
    answer: Result | InputRequired | Fault | None
    cursor: Cursor = BEGINNING


type Limit = Literal[
    "queue",
    "caller",
    "rate",
    "caller_rate",
    "store",
    "team_store",
    "broker",
    "hold",
    "checks",
    "team_budget",
    "caller_budget",
]
"""Why the platform is busy: too many turns wait (of the agent, of one caller), too many per second (of the agent, of
one caller), the broker's store is full, the team has used up its share of it, the broker does not answer, no turns are
taken after a restore, too many arguments are being checked, or a budget is used up."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is not executed, as a tool error for its caller.

    `turn_id` is set when the turn may be in its queue: it is cancelled, or with an idempotency key it may run.
    `limit` is set when the code is `busy` or `budget_exhausted`; `faults` (sentences) when it is
    `invalid_arguments`.
    """

    code: TurnError
    message: str
    retry_after_ms: int | None = None
    turn_id: str | None = None
    limit: Limit | None = None
    faults: tuple[str, ...] = ()


AGENT_RETRY_AFTER_MS = 5000
"""Milliseconds in which a worker reads a corrected folder and publishes its agents."""
