"""What is called, and what comes of it. Imports nothing heavy: the SDK takes 0.3 s to load."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

KEY_META = "pallas/idempotency-key"
CANCEL_META = "pallas/cancel"
TEXT_META = "pallas/text-deltas"
TURN_META = "pallas/turn"
ERROR_META = "pallas/error"
TEXT_PREFIX = "text: "
TEXT_RESTARTED = "text restarted"
"""What Pallas adds to MCP: names in `_meta` and of experimental capabilities, and progress that is text."""

type Status = Literal["ok", "degraded", "error"]
type Action = Literal["accept", "decline", "cancel"]


@dataclass(frozen=True, slots=True)
class Target:
    """The MCP endpoint of an agent, and the bearer token to send there."""

    url: str
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress notification (interface contract, section 5). `total` None: it is not known."""

    progress: float
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer while it is written. `restarted`: what came before does not count any more."""

    text: str
    restarted: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent asks (MCP elicitation). The same call asks the same question under the same id.

    `requested_schema` is a flat JSON Schema of the reply's content. With `url` the person goes there instead.
    """

    id: str
    message: str
    requested_schema: dict[str, Any] | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question; `content` only if it is accepted and has a schema."""

    action: Action
    content: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The result of a tool. If `failed`, `text` explains it, and `code` says why if the agent's gateway gives a code.

    `retry_after` is in seconds.
    """

    text: str
    failed: bool
    code: str | None = None
    turn_id: str | None = None
    retryable: bool = False
    images: tuple[tuple[str, str], ...] = ()
    retry_after: float | None = None


type FailureCode = Literal[
    "unreachable",
    "connection_lost",
    "unavailable",
    "busy",
    "unauthorized",
    "forbidden",
    "not_found",
    "no_tool",
    "too_large",
    "not_mcp",
    "protocol",
]


class CallFailed(Exception):
    """An agent could not be called, or did not answer. The message is a sentence without its address.

    `lost`: the answer may still come; call again, with the same idempotency key if there was one. `sent` False: the
    agent cannot have got the call, so repeating it without a key does no harm either.
    """

    def __init__(self, message: str, *, code: FailureCode, lost: bool = False, sent: bool = True) -> None:
        super().__init__(message)
        self.code: FailureCode = code
        self.lost = lost
        self.sent = sent


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The answer of `get_health` (interface contract, section 3). `message` is set unless the status is `ok`."""

    status: Status
    message: str | None = None


type OnProgress = Callable[[Progress], Awaitable[None]]
type OnText = Callable[[TextDelta], Awaitable[None]]
type OnQuestion = Callable[[Question], Awaitable[Reply]]
