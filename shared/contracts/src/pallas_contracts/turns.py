"""A turn, from request to outcome.

Events (`TurnEvents` on `turn.event`), claims and the outcome hold no content. `TurnEvents` on `turn.content` do, and
are kept for a shorter time. Both are numbered together within an attempt, so a reader that knows the outcome's `events`
knows whether it has all of them.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, GetPydanticSchema

from pallas_contracts.costs import Allowance, Cost
from pallas_contracts.ids import Token
from pallas_contracts.message import Message

type JsonObject = dict[str, Any]

type TurnError = (
    Annotated[Literal["model_failed"], "The model could not be called or answered with an error."]
    | Annotated[Literal["unknown_model"], "The agent cannot be executed with the model that was asked for."]
    | Annotated[Literal["context_overflow"], "Message and history do not fit the model's context window."]
    | Annotated[Literal["vision_required"], "Images were sent to a model that cannot see."]
    | Annotated[Literal["turn_timeout"], "The turn ran longer than its agent allows."]
    | Annotated[Literal["iterations_exceeded"], "The agent's loop took more steps than its agent allows."]
    | Annotated[Literal["tool_unavailable"], "A downstream server could not be reached at all."]
    | Annotated[Literal["agent_unreachable"], "The agent cannot be reached, or the connection broke during the call."]
    | Annotated[Literal["invalid_answer"], "The agent's answer is malformed or does not fit its schema."]
    | Annotated[Literal["node_failed"], "A call inside the pipeline failed."]
    | Annotated[Literal["suspended_too_large"], "Inputs are missing, and the values so far are too large to keep."]
    | Annotated[Literal["resume_in_progress"], "The suspended execution is being resumed already."]
    | Annotated[Literal["worker_lost"], "The worker died and the turn cannot safely be executed again."]
    | Annotated[Literal["cancelled"], "The turn was cancelled."]
    | Annotated[Literal["busy"], "The platform takes no further turn at the moment."]
    | Annotated[Literal["budget_exhausted"], "A budget for the day is used up."]
    | Annotated[Literal["agent_failed"], "The agent could not be started, or its definition cannot be used."]
    | Annotated[Literal["invalid_arguments"], "The arguments do not fit the tool's schema."]
    | Annotated[Literal["result_too_large"], "The answer is larger than the platform takes."]
    | Annotated[Literal["undecodable"], "The turn's message could not be read; it is kept as a dead letter."]
    | Annotated[Literal["content_expired"], "The content of the turn has expired."]
    | Annotated[Literal["content_damaged"], "The offloaded content of the turn is damaged."]
    | Annotated[Literal["key_reused"], "The idempotency key was used before, for another call."]
    | Annotated[Literal["internal"], "Something in Pallas went wrong; the log has it under the turn's id."]
)
"""The stable code of a failed turn or refused call, each with its meaning."""

TURN_ERRORS: Mapping[TurnError, str] = {
    get_args(code.__origin__)[0]: code.__metadata__[0] for code in get_args(TurnError.__value__)
}
"""What each code of `TurnError` means, as a sentence for the caller."""

_FIRST_THAT_ASKS = "2026-07-28"
"""The MCP revision from which on a result may ask for input."""

_AS_STRING = GetPydanticSchema(lambda _code, schema_of: schema_of(str))
"""Readers take every string as a code: a later release may add one."""


def turn_error(word: str) -> TurnError:
    """The code that a word stands for; `internal` for a word that is none."""
    codes: dict[str, TurnError] = {code: code for code in TURN_ERRORS}
    return codes.get(word, "internal")


def caller_token(label: str) -> str:
    """The token of the principal `type:id`."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


_EFFECT_UNKNOWN: frozenset[str] = frozenset(
    {"worker_lost", "turn_timeout", "agent_unreachable", "cancelled", "internal"}
)


def effect_unknown(code: str | None, *, retryable: bool) -> bool:
    """Whether nobody knows if a call that failed with `code` took effect.

    The one rule for all callers (retries of pipelines, the fleet, the console's Retry): such a call is never repeated
    by itself, unless its tool is read-only or idempotent. `retryable` says that nothing was executed, or that a
    repetition joins the turn. A tool error is known: the tool answered.
    """
    return code in _EFFECT_UNKNOWN and not retryable


API_KEY_ID = "constellation-key-"
"""With what the ids of callers with an API key of pipelines begin. Many people may have one key."""


class Principal(Message):
    """Who calls: `peer` is an unauthenticated caller, named by its address; the others are kinds of bearers.

    `user` is whom a `token` belongs to; a caller with an API key of pipelines names it itself. It decides what is the
    caller's own, and grants nothing.
    """

    type: Literal["peer", "user", "team", "turn", "token"] = "peer"
    id: str = "unknown"
    name: str | None = None
    user: str | None = None

    @property
    def label(self) -> str:
        """The caller as `type:id`."""
        return f"{self.type}:{self.id}"

    @property
    def owner(self) -> str:
        """Whose it is what the caller makes: its user's, whichever token it uses.

        With an API key of pipelines it is that of each user that has the key, and of nobody else with that name.
        """
        if self.user is None:
            return self.label
        return f"{self.label}/{self.user}" if self.id.startswith(API_KEY_ID) else f"user:{self.user}"

    @cached_property
    def token(self) -> str:
        """The caller as a token for subjects: a digest, from which the principal cannot be read."""
        return caller_token(self.label)


class Offloaded(Message):
    """A claim check: JSON of `size` bytes that was too big for its message is stored in `object.part`.

    It is stored under the turn's id and `name` (of a request, or of an attempt's result) in `parts` parts. `sha256` is
    the digest of the whole in hex.
    """

    name: Token
    parts: int
    size: int
    sha256: str


LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of MCP's log messages, the lowest first (RFC 5424)."""


class ClientContext(Message):
    """What the caller's MCP client declared, for tools that answer differently by it."""

    protocol_version: str
    capabilities: JsonObject = Field(default_factory=dict[str, Any])
    log_level: str | None = None
    progress: bool = False

    @property
    def fills_in_forms(self) -> bool:
        """Whether it can be asked for input by a form (`InputRequired`): revisions with a handshake cannot."""
        match self.capabilities.get("elicitation"):
            case {**modes}:
                return self.protocol_version >= _FIRST_THAT_ASKS and (not modes or "form" in modes)
            case _:
                return False


class TurnRequested(Message):
    """One call of one tool of one agent (subject `turn.requested`, removed when the turn is concluded).

    `input_responses` and `request_state` come from a caller that was asked for more input (`InputRequired`). `stowed`
    is the claim check of the arguments, `input_responses` and `request_state`, as one object, if they are too big for
    the message; arguments in the message are then added to those of the object. `correlation` is the caller's id of
    its conversation, `conversation` a keyed hash of it, which the log keeps; `task` is the caller's id of its task
    and `task_hash` its keyed hash. `digest` is a keyed digest of the call, if the caller sent an idempotency key.
    `parent` is the turn that made this one, `depth` the number of turns above it. `replay_of` is the turn that this
    one executes again, `model` the model to execute it with instead of the agent's. `operator` is who had it executed
    again, if `principal` is the caller of the turn `replay_of`. `allowance` is what an attempt may spend on models;
    None: there is no budget.
    """

    turn_id: Token
    team: Token
    agent: Token
    tool: str
    arguments: JsonObject = Field(default_factory=dict[str, Any])
    principal: Principal = Principal()
    parent: Token | None = None
    depth: int = 0
    correlation: str | None = None
    client: ClientContext
    input_responses: JsonObject | None = None
    request_state: str | None = None
    stowed: Offloaded | None = None
    conversation: str | None = None
    task: str | None = None
    task_hash: str | None = None
    digest: str | None = None
    replay_of: Token | None = None
    operator: Principal | None = None
    model: str | None = None
    allowance: Allowance | None = None
    requested_at: datetime

    @property
    def is_shared(self) -> bool:
        """Whether others may make the same turn, because its id follows from what is asked."""
        return self.digest is not None


class TurnAsked(Message):
    """What claims and cancels repeat of a request, without its content: the request is removed at the turn's end."""

    tool: str | None = None
    principal: Principal | None = None
    conversation: str | None = None
    task_hash: str | None = None
    parent: Token | None = None
    replay_of: Token | None = None
    operator: Principal | None = None
    requested_at: datetime | None = None

    @classmethod
    def of(cls, request: "TurnRequested | TurnAsked") -> "TurnAsked":
        """What there is to repeat of a request, or of a claim."""
        return TurnAsked.model_validate({name: getattr(request, name) for name in TurnAsked.model_fields})


class Claimed(TurnAsked):
    """A worker's claim of the turn. The stream refuses it unless it directly follows the claim that it supersedes.

    With `ends` the worker does not execute the turn, which cannot be executed again, but only ends it. With `continues`
    the journal has answers of earlier attempts, from which this one goes on. `delivery` is the reply subject of the
    worker's delivery: a gateway that finds the worker lost naks it there.
    """

    type: Literal["claimed"] = "claimed"
    attempt: int
    ends: bool = False
    continues: bool = False
    worker: Token
    delivery: str | None = None
    digest: str | None = None
    at: datetime


class CancelRequested(Message):
    """A cancel. It is written in the place of a claim, and no claim may follow it, so the turn stays cancelled.

    `asked` is None where whoever cancels has not seen the request. Without it and without a claim, the log does not say
    whose turn it was.
    """

    type: Literal["cancelled"] = "cancelled"
    reason: str
    asked: TurnAsked | None = None
    at: datetime


class TurnClaim(Message):
    """Who may act for the turn (subject `turn.claim`): the last message on the turn's claim subject decides."""

    turn_id: Token
    team: Token
    agent: Token
    claim: Annotated[Claimed | CancelRequested, Field(discriminator="type")]


class WriteTest(Message):
    """A process that makes turns tries whether the log stores messages (subject `write.test`). It expires at once."""

    instance: Token


class TurnEvent(Message):
    """What all events share: its number within the attempt, from 1, and the time in milliseconds since the epoch."""

    seq: int = 0
    at: int = 0


class LogEvent(TurnEvent):
    """An event without content: it is kept as long as the log."""


class ContentEvent(TurnEvent):
    """Content. It is kept for the time of content (`PALLAS_CONTENT_SECONDS` after the turn's end)."""


class FinalEvent(ContentEvent):
    """Content: the answer, which the caller gets. It is the last event of a turn that was not cancelled."""


class Step(LogEvent):
    """A step of an agent's loop begins: a call of the model or of its tools (interface contract section 5)."""

    type: Literal["step"] = "step"
    agent: str
    n: int
    kind: Literal["llm", "tool"]


class ToolStarted(LogEvent):
    """A tool is about to be called. `leaf` is False for a sub-agent, whose own tools are logged by themselves.

    `call` names the call in the turn, as in `Answered`. A tool that is `safe` may be called again. If the outcome of
    another one is unknown, the model of its agent is told with `tell_model`; otherwise the turn fails.
    """

    type: Literal["tool_started"] = "tool_started"
    call: str
    server: str
    tool: str
    leaf: bool = True
    safe: bool = False
    tell_model: bool = False


class ToolCompleted(LogEvent):
    """The tool answered."""

    type: Literal["tool_completed"] = "tool_completed"
    call: str
    server: str
    tool: str
    duration_ms: float


class ToolFailed(LogEvent):
    """The tool answered with an error or could not be called. `code` never holds text of the tool."""

    type: Literal["tool_failed"] = "tool_failed"
    call: str
    server: str
    tool: str
    duration_ms: float
    code: str


class ModelCalled(LogEvent):
    """A model answered; its duration and tokens. `call` names the call in the turn, as in `Answered`.

    `cached_tokens` are those of the input that the provider had in its cache. `cost` is by the price at the time of the
    call; None: the model had no price. `caller` is the principal of the turn as `type:id`: who spends.
    """

    type: Literal["model_called"] = "model_called"
    call: str = ""
    agent: str
    model: str
    provider: str = ""
    duration_ms: float
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Cost | None = None
    caller: str = ""


type ModelFault = Literal[
    "rate_limited", "server_error", "timeout", "unreachable", "refused", "context_overflow", "invalid_response"
]


class ModelFailed(LogEvent):
    """A model did not answer. Fields as in `ModelCalled`; `code` never holds text of the provider.

    `refused`: with a status 4xx that is none of the others. `invalid_response`: it answered what cannot be used.
    """

    type: Literal["model_failed"] = "model_failed"
    call: str
    agent: str
    model: str
    provider: str
    duration_ms: float
    code: Annotated[ModelFault, _AS_STRING]


class Continued(LogEvent):
    """The attempt goes on where earlier ones stopped, at step `n`, with the answers of the calls `taken`."""

    type: Literal["continued"] = "continued"
    n: int
    taken: tuple[str, ...] = ()


class Restarted(LogEvent):
    """The attempt cannot use the answers of earlier ones, and starts anew. They count for no later attempt either."""

    type: Literal["restarted"] = "restarted"


class HandedBack(LogEvent):
    """The worker drains and gives the turn back. The last event of its attempt, which does not count as a lost one."""

    type: Literal["handed_back"] = "handed_back"


class Answered(ContentEvent):
    """Content: what a call answered (an entry of the journal). Later attempts do not make that call again.

    `call` is the place of the call in the turn. Of an agent with a model, `2` is its second model call, `2.1` the first
    tool call of that response, and `2.1.1` the first model call of a sub-agent that is called there. With fast-agent,
    `w1` is the first agent that a workflow calls, and `planner/1` a call of an agent that is no tool. A function's
    steps are numbered in their order. `basis` says what was called: a digest of the agent, or the name of a step.
    `answer` is JSON as text; `stowed` is its claim check if it is too big for a message. An entry with neither is a
    gap: the answer could not be kept.
    """

    type: Literal["answered"] = "answered"
    call: str
    basis: str
    answer: str | None = None
    stowed: Offloaded | None = None


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
    """Content: a function reported its own progress, which is passed on unchanged."""

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
    """Content: a piece of a model's text. Callers get it only if they ask for it."""

    type: Literal["text_delta"] = "text_delta"
    agent: str
    text: str


class Result(FinalEvent):
    """Content: the turn's answer as an MCP tool result (`content` blocks, camelCase as on the wire).

    `stowed` is the claim check of `content`, `structured` and `meta`, as one object, if they are too big.
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
    | ModelFailed
    | Continued
    | Restarted
    | HandedBack
    | Answered
    | ToolProgress
    | Progress
    | LogMessage
    | TextDelta
    | Result
    | InputRequired
    | Fault
)

KNOWN_EVENTS: frozenset[type[TurnEvent]] = frozenset(get_args(KnownEvent.__value__))
"""The class of every event of this release."""

_KNOWN_TYPES = frozenset(event.model_fields["type"].default for event in KNOWN_EVENTS)


def events_of(*kinds: type[TurnEvent]) -> frozenset[type[TurnEvent]]:
    """The classes of `KNOWN_EVENTS` that are subclasses of one of `kinds`."""
    return frozenset(event for event in KNOWN_EVENTS if issubclass(event, kinds))


def _later(type_: str) -> str:
    if type_ in _KNOWN_TYPES:
        raise ValueError("an event of this type has other fields")
    return type_


class UnknownEvent(TurnEvent):
    """An event of a type that a later release has added. It keeps its number, and readers skip it.

    So a new type must not change the meaning of other events.
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


TurnStatus = Literal["completed", "failed", "cancelled", "input_required"]
"""How a turn ended."""

TURN_STATUSES: tuple[TurnStatus, ...] = get_args(TurnStatus)


class TurnOutcome(Message):
    """How the turn ended (subject `turn.outcome`). Only the attempt with the last claim can write it, once.

    `events` is the number of the attempt's last event. `code` is set when the status is failed or cancelled.
    `content_until` is when content that was written before the turn's end is removed; None when there is none.
    """

    turn_id: Token
    team: Token
    agent: Token
    attempt: int
    status: TurnStatus
    code: Annotated[TurnError, _AS_STRING] | None = None
    retryable: bool = False
    events: int = 0
    requested_at: datetime
    started_at: datetime | None = None
    ended_at: datetime
    content_until: datetime | None = None


class DeadLetter(Message):
    """A turn that could not be handled, without its content (subject `dead.letter`).

    `subject` is the subject of its message, `turn_id` is None if not even that could be read.
    """

    letter: Token
    team: Token
    agent: Token
    turn_id: Token | None = None
    subject: str
    code: Annotated[TurnError, _AS_STRING]
    reason: str
    attempts: int = 0
    at: datetime


class DeadOriginal(Message):
    """Content: the original message of a dead letter (subject `dead.original`); `data` is its body in base64."""

    letter: Token
    team: Token
    agent: Token
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    data: str
