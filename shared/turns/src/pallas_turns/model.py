"""The input and the results of a call: the call, the end of its turn, a refusal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pallas_contracts.agents import Limits
from pallas_contracts.costs import Allowance
from pallas_contracts.turns import (
    ClientContext,
    Fault,
    InputRequired,
    JsonObject,
    Principal,
    Result,
    TurnError,
    TurnOutcome,
    TurnRequested,
)
from pallas_turns.claims import BEGINNING, Cursor


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


type CheckBudget = Callable[[TurnRequested, Limits], Refusal | Allowance | None]
"""Why a budget refuses a turn, or what an admitted turn may spend on models; None: as much as it likes."""


AGENT_RETRY_AFTER_MS = 5000
"""Milliseconds in which a worker reads a corrected folder and publishes its agents."""


class Observer:
    """Is notified of the turn of one call. Its methods may be slow; they never fail.

    This base class ignores all events. Others set `listens` (and `text`) and override the methods that they need.
    """

    listens = False
    text = False
    """Whether it is notified of pieces of models' text, too."""

    async def on_admitted(self) -> None:
        """The call is within all limits. Its turn is submitted or joined as soon as this returns."""

    async def on_followed(self) -> None:
        """The turn is followed from here on."""

    async def on_queued(self, ahead: int) -> None:
        """The turn waits; `ahead` turns are in front of it."""

    async def on_attempt(self, attempt: int) -> None:
        """The last attempt was lost, and `attempt` starts anew. What was reported before does not count any more."""

    async def on_event(self, event: object, cursor: Cursor, /) -> None:
        """An event of the turn; `cursor` is the cursor behind it."""

    def caller_left(self) -> bool:
        """Whether a cancelled call means that its caller left; otherwise the turn runs on."""
        return False

    def why_left(self) -> str:
        """How the caller left, as the reason of the cancel."""
        return "the caller closed the stream"
