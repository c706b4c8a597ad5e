"""A turn, from request to outcome.

What happened (`TurnEvents` on `turn.event`, claims, the outcome) holds no content; what was said (`TurnEvents` on
`turn.content`) does, and is kept for a shorter time. Both share one numbering per attempt, so a reader that knows the
outcome's `events` knows whether it has seen everything.
"""

import hashlib
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from pallas_contracts.ids import Token
from pallas_contracts.message import Message

type JsonObject = dict[str, Any]


class Principal(Message):
    """Who calls: `peer` is an unauthenticated caller, named by its address; the others are kinds of bearers."""

    type: Literal["peer", "user", "team", "turn", "token"] = "peer"
    id: str = "unknown"
    name: str | None = None

    @property
    def token(self) -> str:
        """The caller as it may stand in a subject; nothing of who it is can be read back from it."""
        return hashlib.sha256(f"{self.type}:{self.id}".encode()).hexdigest()[:16]


class Offloaded(Message):
    """A claim check: JSON of `size` bytes that was too big for its message lies in `object.part`.

    It lies there under the turn's id in `parts` parts, of which `name` tells those of its request from those of its
    answer. `sha256` is the digest of the whole in hex.
    """

    name: Token
    parts: int
    size: int
    sha256: str


class ClientContext(Message):
    """What the caller's MCP client declared, for tools that answer differently by it."""

    protocol_version: str
    capabilities: JsonObject = Field(default_factory=dict[str, Any])
    log_level: str | None = None
    progress: bool = False


class TurnRequested(Message):
    """One call of one tool of one agent (subject `turn.requested`, removed when the turn is concluded).

    `input_responses` and `request_state` come back from a caller that was asked for more input (`InputRequired`).
    `stowed` is where the arguments, `input_responses` and `request_state` are, as one object, when they are too big to
    travel here; arguments that are here nevertheless belong to them. `correlation` is the caller's own word for its
    conversation, `conversation` what the log keeps of it: a keyed hash. `digest` is a keyed digest of what was
    called, when the caller sent an idempotency key. `replay_of` is the turn that this one executes again, `model` the
    model that it shall be executed with instead of the agent's.
    """

    turn_id: Token
    team: Token
    agent: Token
    tool: str
    arguments: JsonObject = Field(default_factory=dict[str, Any])
    principal: Principal = Principal()
    parent: Token | None = None
    correlation: str | None = None
    client: ClientContext
    input_responses: JsonObject | None = None
    request_state: str | None = None
    stowed: Offloaded | None = None
    conversation: str | None = None
    digest: str | None = None
    replay_of: Token | None = None
    model: str | None = None
    requested_at: datetime


class Claimed(Message):
    """A worker takes the turn. The stream refuses it unless it follows the claim it supersedes.

    With `ends` it does not execute the turn, which cannot be executed again, but says how it ends. `delivery` is where
    the worker's delivery is settled: whoever finds the worker dead gives it back there. What follows it repeats the
    request, which leaves its queue when the turn ends, without its content.
    """

    type: Literal["claimed"] = "claimed"
    attempt: int
    ends: bool = False
    worker: Token
    delivery: str | None = None
    tool: str | None = None
    principal: Principal | None = None
    conversation: str | None = None
    digest: str | None = None
    replay_of: Token | None = None
    requested_at: datetime | None = None
    at: datetime


class CancelRequested(Message):
    """The turn's tombstone. It takes the place of a claim and nothing may follow it, so a cancel sticks."""

    type: Literal["cancelled"] = "cancelled"
    reason: str
    at: datetime


class TurnClaim(Message):
    """Who may act for the turn (subject `turn.claim`): the last message on the turn's claim subject decides."""

    turn_id: Token
    team: Token
    agent: Token
    claim: Annotated[Claimed | CancelRequested, Field(discriminator="type")]


class TurnJoined(Message):
    """A caller that had sent an idempotency key follows the turn, through this gateway (subject `turn.joined`).

    Said when its call has made the turn or joined it, and in answer to a `TurnLeft` when it is still there.
    """

    turn_id: Token
    team: Token
    agent: Token
    gateway: Token
    at: datetime


class TurnLeft(Message):
    """A caller that had sent an idempotency key does not follow the turn any more (subject `turn.left`).

    When the agent's grace time is over, the gateway that said it cancels the turn, unless a `TurnJoined` is behind it.
    """

    turn_id: Token
    team: Token
    agent: Token
    gateway: Token
    at: datetime


class TurnEvent(Message):
    """What all events share: its number within the attempt, from 1, and the time in milliseconds since the epoch."""

    seq: int = 0
    at: int = 0


class LogEvent(TurnEvent):
    """What happened, without content: it is kept as long as the log."""


class ContentEvent(TurnEvent):
    """Content: what was said. It is kept for the time of content."""


class FinalEvent(ContentEvent):
    """Content: what the caller gets; the last event of a turn that was not cancelled."""


class Step(LogEvent):
    """The loop of an agent moves on: a model turn or a tool step (interface contract section 5)."""

    type: Literal["step"] = "step"
    agent: str
    n: int
    kind: Literal["llm", "tool"]


class ToolStarted(LogEvent):
    """A tool is about to be called. `leaf` is False for a sub-agent, whose own tools are logged by themselves."""

    type: Literal["tool_started"] = "tool_started"
    call: str
    server: str
    tool: str
    leaf: bool = True


class ToolCompleted(LogEvent):
    """The tool answered."""

    type: Literal["tool_completed"] = "tool_completed"
    call: str
    server: str
    tool: str
    duration_ms: float


class ToolFailed(LogEvent):
    """The tool answered with an error or could not be called. `code` is a word, never the tool's text."""

    type: Literal["tool_failed"] = "tool_failed"
    call: str
    server: str
    tool: str
    duration_ms: float
    code: str


class ModelCalled(LogEvent):
    """A model answered: what it cost."""

    type: Literal["model_called"] = "model_called"
    agent: str
    model: str
    duration_ms: float
    input_tokens: int = 0
    output_tokens: int = 0


class ToolProgress(ContentEvent):
    """Content: a downstream tool reported progress."""

    type: Literal["tool_progress"] = "tool_progress"
    call: str
    server: str
    tool: str
    progress: float
    total: float | None = None
    message: str | None = None


class Progress(ContentEvent):
    """Content: a function reported its own progress, passed on as it is."""

    type: Literal["progress"] = "progress"
    progress: float
    total: float | None = None
    message: str | None = None


class LogMessage(ContentEvent):
    """Content: a function wrote an MCP log message."""

    type: Literal["log"] = "log"
    level: str
    data: Any
    logger: str | None = None


class TextDelta(ContentEvent):
    """Content: a piece of a model's text. It stays in the log."""

    type: Literal["text_delta"] = "text_delta"
    agent: str
    text: str


class Result(FinalEvent):
    """Content: the turn's answer as an MCP tool result (`content` blocks, camelCase as on the wire).

    `stowed` is where `content`, `structured` and `meta` are, as one object, when they are too big to travel here.
    """

    type: Literal["result"] = "result"
    content: tuple[JsonObject, ...] = ()
    structured: Any = None
    meta: JsonObject | None = None
    is_error: bool = False
    stowed: Offloaded | None = None


class InputRequired(FinalEvent):
    """Content: the tool needs more from the caller, who calls again with the responses and `request_state`."""

    type: Literal["input_required"] = "input_required"
    input_requests: JsonObject
    request_state: str | None = None


class Fault(FinalEvent):
    """Content: the sentence that explains a failed turn to its caller. `data` is for protocol errors only."""

    type: Literal["fault"] = "fault"
    message: str
    protocol_code: int | None = None
    data: JsonObject | None = None


type KnownEvent = (
    Step
    | ToolStarted
    | ToolCompleted
    | ToolFailed
    | ModelCalled
    | ToolProgress
    | Progress
    | LogMessage
    | TextDelta
    | Result
    | InputRequired
    | Fault
)

_KNOWN: tuple[type[TurnEvent], ...] = get_args(KnownEvent.__value__)


def types_of(*kinds: type[TurnEvent]) -> frozenset[str]:
    """The `type` of every event that is of one of these classes."""
    return frozenset(event.model_fields["type"].default for event in _KNOWN if issubclass(event, kinds))


def _later(type_: str) -> str:
    if type_ in types_of(TurnEvent):
        raise ValueError("an event of this type has other fields")
    return type_


class UnknownEvent(TurnEvent):
    """An event of a type that a later release has added. It keeps its number; its meaning is skipped.

    A new type therefore never changes what other events mean.
    """

    type: Annotated[Token, AfterValidator(_later)]


type AnyEvent = Annotated[
    Annotated[KnownEvent, Field(discriminator="type")] | UnknownEvent, Field(union_mode="left_to_right")
]


class TurnEvents(Message):
    """Events of one attempt that were emitted together, in order (subjects `turn.event` and `turn.content`)."""

    turn_id: Token
    team: Token
    agent: Token
    attempt: int
    events: tuple[AnyEvent, ...]


class TurnOutcome(Message):
    """How the turn ended (subject `turn.outcome`; only the attempt that has the turn can write it, once).

    `events` is the number of the attempt's last event. `code` is a word of `TURN_ERRORS` when the status is failed.
    `content_until` is when content that was written before the turn's end has to go; None when there is none.
    """

    turn_id: Token
    team: Token
    agent: Token
    attempt: int
    status: Literal["completed", "failed", "cancelled", "input_required"]
    code: str | None = None
    retryable: bool = False
    events: int = 0
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime
    content_until: datetime | None = None


class DeadLetter(Message):
    """A turn that could not be handled, without its content (subject `dead.letter`).

    `subject` is where it lay, `code` one of `TURN_ERRORS`, `turn_id` None when not even that could be read.
    """

    letter: Token
    team: Token
    agent: Token
    turn_id: Token | None = None
    subject: str
    code: str
    reason: str
    attempts: int = 0
    at: datetime


class DeadOriginal(Message):
    """Content: the message of a dead letter as it was (subject `dead.original`); `data` is its body in base64."""

    letter: Token
    team: Token
    agent: Token
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    data: str


TURN_ERRORS: dict[str, str] = {
    "model_failed": "The model could not be called or answered with an error.",
    "unknown_model": "The model that was asked for is none that the agent can be executed with.",
    "context_overflow": "Message and history do not fit the model's context window.",
    "vision_required": "Images were sent to a model that cannot see.",
    "turn_timeout": "The turn ran longer than its agent allows.",
    "iterations_exceeded": "The agent's loop took more steps than its agent allows.",
    "tool_unavailable": "A downstream server could not be reached at all.",
    "worker_lost": "The worker died and the turn cannot safely be executed again.",
    "cancelled": "The turn was cancelled.",
    "busy": "Too many turns are waiting.",
    "agent_failed": "The agent could not be started, or its definition cannot be used.",
    "invalid_arguments": "The arguments do not fit the tool's schema.",
    "result_too_large": "The answer is larger than the platform takes.",
    "undecodable": "The turn's message could not be read; it is kept as a dead letter.",
    "content_expired": "What was said in the turn is not kept any more.",
    "content_damaged": "What was kept of the turn's content is not what was put there.",
    "key_reused": "The idempotency key was used before, for another call.",
    "internal": "Something in Pallas went wrong; the log has it under the turn's id.",
}
"""The stable codes of failed turns, with what each means."""
