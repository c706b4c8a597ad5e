"""The content of a turn, while it is kept."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pallas_bus.connection import Bus
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    CancelRequested,
    Claimed,
    Continued,
    Fault,
    HandedBack,
    InputRequired,
    ModelCalled,
    ModelFailed,
    Restarted,
    Result,
    Step,
    TextDelta,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)
from pallas_turns.content import whole_request, whole_result
from pallas_turns.history.turns import TurnHistory

EXPIRED = "content_expired: the content of the turn is no longer stored"


@dataclass(frozen=True, slots=True)
class Content:
    """How a turn ended, and the texts of its agents. `end` is its last event; None if it has none or it expired."""

    status: str
    code: str | None
    end: Result | InputRequired | Fault | None
    texts: tuple[tuple[str, str], ...]

    @property
    def expired(self) -> bool:
        """Whether the last event is no longer stored. A cancelled turn had none."""
        return self.end is None and self.status not in ("cancelled", "waiting", "running")

    @property
    def answer(self) -> dict[str, Any] | None:
        """The last event as plain values, without its number and time."""
        if self.end is None:
            return None
        return self.end.model_dump(mode="json", exclude={"seq", "at"}, exclude_none=True)

    @property
    def text(self) -> str:
        """The last event as text."""
        match self.end:
            case Result():
                return "\n".join(_block(block) for block in self.end.content)
            case Fault():
                return f"{self.code or 'internal'}: {self.end.message}"
            case InputRequired():
                return f"input required: {json.dumps(self.end.input_requests, ensure_ascii=False)}"
            case None:
                return EXPIRED if self.expired else self.status

    def equals(self, other: "Content") -> bool | None:
        """Whether both answers are equal; None if one of them is no longer stored."""
        if self.expired or other.expired:
            return None
        return (self.status, self.code, self.answer) == (other.status, other.code, other.answer)


async def with_content(bus: Bus, turn: TurnHistory) -> TurnHistory:
    """Load the offloaded content of a turn into it, and remove references to content that is no longer stored.

    Raises:
        Unavailable: the broker does not answer.
    """
    if turn.kept is not None:
        try:
            turn.kept = await whole_request(bus, turn.kept)
        except (NotFound, Rejected):
            turn.kept = None
    for attempt in turn.attempts.values():
        for number, event in list(attempt.events.items()):
            if isinstance(event, Result):
                try:
                    attempt.events[number] = await whole_result(bus, turn.ref, event)
                except (NotFound, Rejected):
                    del attempt.events[number]
    return turn


def content_of(turn: TurnHistory) -> Content:
    """The content of the attempt that ended the turn, or of the last attempt."""
    number = turn.outcome.attempt if turn.outcome is not None else max(turn.attempts, default=0)
    events = turn.attempts[number].in_order() if number in turn.attempts else []
    ends = [event for event in events if isinstance(event, Result | InputRequired | Fault)]
    texts: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, TextDelta):
            if texts and texts[-1][0] == event.agent:
                texts[-1] = (event.agent, texts[-1][1] + event.text)
            else:
                texts.append((event.agent, event.text))
    code = turn.outcome.code if turn.outcome is not None else None
    return Content(turn.state, code, ends[-1] if ends else None, tuple(texts))


def arguments_of(turn: TurnHistory) -> dict[str, Any] | None:
    """The arguments of the call; None if they are no longer stored."""
    request = turn.kept or turn.request
    return request.arguments if request is not None else None


def _block(block: dict[str, Any]) -> str:
    return str(block["text"]) if block.get("type") == "text" else f"({block.get('type', 'something')})"


def claim_text(claim: Claimed | CancelRequested) -> str:
    """A claim in a few words."""
    match claim:
        case CancelRequested():
            return f"cancel: {claim.reason}"
        case Claimed(ends=True):
            return f"claimed by {claim.worker} to end it"
        case Claimed():
            return f"attempt {claim.attempt} by {claim.worker}"


def text_of(event: AnyEvent) -> str:
    """An event in a few words."""
    match event:
        case Step():
            return f"{event.agent} step {event.n} ({event.kind})"
        case ToolStarted():
            return f"{event.server}/{event.tool}: started"
        case ToolCompleted():
            return f"{event.server}/{event.tool}: completed in {event.duration_ms:.1f} ms"
        case ToolFailed():
            return f"{event.server}/{event.tool}: failed ({event.code}) in {event.duration_ms:.1f} ms"
        case ModelCalled():
            return f"{event.model} answered {event.agent} in {event.duration_ms:.1f} ms ({tokens_text(event)})"
        case ModelFailed():
            return f"{event.model} failed {event.agent} in {event.duration_ms:.1f} ms ({event.code})"
        case Continued():
            answers = "1 answer" if len(event.taken) == 1 else f"{len(event.taken)} answers"
            return f"goes on at step {event.n} with {answers} of earlier attempts"
        case Restarted():
            return "starts anew: the agent has changed, or an answer of an earlier attempt cannot be read"
        case HandedBack():
            return "handed back: the worker drains"
        case Answered():
            return f"answer of call {event.call} kept"
        case _:
            return event.type.replace("_", " ")


def tokens_text(event: ModelCalled) -> str:
    """The tokens of a call of a model, and what it cost if that is known."""
    cached = f" ({event.cached_tokens} cached)" if event.cached_tokens else ""
    cost = f", {event.cost}" if event.cost is not None else ""
    return f"{event.input_tokens} in{cached}, {event.output_tokens} out{cost}"


def time_of(event: AnyEvent) -> datetime:
    """When an event happened."""
    return datetime.fromtimestamp(event.at / 1000, UTC)
