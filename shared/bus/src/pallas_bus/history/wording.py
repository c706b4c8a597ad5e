"""Claims and events of a turn in a few words. Content is named but not shown."""

from datetime import UTC, datetime

from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    CancelRequested,
    Claimed,
    Continued,
    HandedBack,
    ModelCalled,
    ModelFailed,
    Restarted,
    Step,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
)


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
