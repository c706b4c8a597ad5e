"""A turn of the log as the answers have it."""

from collections import Counter
from datetime import UTC, datetime

from pydantic import JsonValue

from pallas_contracts.turns import TURN_ERRORS, Fault, ModelCalled, turn_error
from pallas_turns.history.contents import Content, arguments_of, content_of
from pallas_turns.history.timeline import Times, beginning, timeline, times_of
from pallas_turns.history.turns import TurnHistory
from pallas_turns.replay import why_no_replay
from workspaces.answers import TurnContent, TurnLine, TurnTimes, TurnView
from workspaces.tables import ChatMessage
from workspaces.turns.bars import bars_of

LONGEST_TEXT = 64 * 1024
"""Characters of one text in what was asked or answered; images are longer."""


def line_of(turn: TurnHistory) -> TurnLine:
    """One turn in a list. Of a listed turn the log was read in part only, so the first attempt may be missing."""
    asked, ended = turn.requested_at, turn.outcome.ended_at if turn.outcome is not None else None
    first, last = turn.attempts.get(1), turn.attempts.get(max(turn.attempts, default=0))
    attempts = max(turn.attempts, default=0)
    if turn.outcome is not None and turn.cancel is None:
        attempts = max(attempts, turn.outcome.attempt)
    return TurnLine(
        id=turn.turn_id,
        team=turn.team,
        agent=turn.agent,
        tool=turn.tool,
        caller=turn.caller,
        state=turn.state,
        code=turn.outcome.code if turn.outcome is not None else None,
        requested_at=asked,
        ended_at=ended,
        queued_ms=_ms_between(asked, first.claim.at if first is not None else ended if not attempts else None),
        took_ms=_ms_between(asked, ended),
        attempts=attempts,
        worker=last.claim.worker if last is not None else None,
        replay_of=turn.replay_of,
        error=error_of(turn.outcome.code) if turn.outcome is not None else None,
    )


def error_of(code: str | None) -> str | None:
    """What the code of a failure means."""
    return TURN_ERRORS[turn_error(code)] if code is not None else None


def view_of(turn: TurnHistory, *, content: bool) -> TurnView:
    """One turn as a waterfall. With `content`, also what was asked and answered."""
    entries, began = timeline(turn), beginning(turn)
    found, refused, request = content_of(turn), why_no_replay(turn), turn.request or turn.kept
    return TurnView(
        turn=line_of(turn),
        model=_model(turn),
        parent_id=request.parent if request is not None else None,
        bars=bars_of(entries, began),
        times=_times(times_of(entries), _so_far(turn)),
        trace=turn.trace,
        content=_content(turn, found) if content else None,
        content_until=turn.outcome.content_until if turn.outcome is not None else None,
        fault=_cut(found.end.message) if isinstance(found.end, Fault) else None,
        can_replay=refused is None,
        why_not=refused[1] if refused is not None else None,
    )


def with_messages(view: TurnView, message: str, reply: ChatMessage) -> TurnView:
    """The turn with what its conversation has of it, where the log has forgotten that."""
    content = view.content
    if content is None:
        return view
    if content.asked is None:
        content = content.model_copy(update={"asked": {"message": _cut(message)}})
    if content.expired:
        content = content.model_copy(update={"text": _cut(reply.content), "expired": False})
    fault = _cut(reply.error) if view.fault is None and reply.status == "failed" and reply.error else view.fault
    return view.model_copy(update={"content": content, "fault": fault})


def _content(turn: TurnHistory, found: Content) -> TurnContent:
    asked = arguments_of(turn)
    return TurnContent(
        asked={name: shortened(value) for name, value in asked.items()} if asked is not None else None,
        answer=shortened(found.answer),
        text=_cut(found.text),
        expired=found.expired,
    )


def shortened(value: JsonValue, longest: int = LONGEST_TEXT) -> JsonValue:
    """The same plain values, with long texts cut."""
    if isinstance(value, str):
        return _cut(value, longest)
    if isinstance(value, dict):
        return {name: shortened(each, longest) for name, each in value.items()}
    if isinstance(value, list):
        return [shortened(each, longest) for each in value]
    return value


def _cut(text: str, longest: int = LONGEST_TEXT) -> str:
    left = len(text) - longest
    return f"{text[:longest]}… ({left:,} characters more)" if left > 0 else text


def _model(turn: TurnHistory) -> str | None:
    """The model that answered most often; before it answers, the one that was asked for, as far as the log says."""
    events = (event for attempt in turn.attempts.values() for event in attempt.events.values())
    called = Counter(event.model for event in events if isinstance(event, ModelCalled))
    if called:
        return called.most_common(1)[0][0]
    request = turn.request or turn.kept
    return request.model if request is not None else None


def _so_far(turn: TurnHistory) -> float:
    """Seconds since the request, while the turn waits or runs."""
    if turn.outcome is not None or turn.requested_at is None:
        return 0.0
    return (datetime.now(UTC) - turn.requested_at).total_seconds()


def _times(times: Times, so_far: float) -> TurnTimes:
    return TurnTimes(
        total=_ms(max(times.total, so_far)),
        queued=_ms(times.queued),
        models=_ms(times.models),
        model_calls=times.model_calls,
        tools=_ms(times.tools),
        tool_calls=times.tool_calls,
        rest=_ms(times.rest),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _ms_between(begin: datetime | None, end: datetime | None) -> float | None:
    return _ms((end - begin).total_seconds()) if begin is not None and end is not None else None
