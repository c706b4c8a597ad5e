"""The log of turns as lines of text, which show no content."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.builders import turn_outcome, turn_requested

from pallas_cli.turns.tail import lines_of, state_of
from pallas_contracts.turns import (
    AnyEvent,
    CancelRequested,
    Claimed,
    Fault,
    HandedBack,
    ModelCalled,
    Result,
    Step,
    TextDelta,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
    TurnClaim,
    TurnEvents,
)
from pallas_turns.history.contents import text_of
from pallas_turns.history.tail import LogEntry

AT = datetime(2026, 3, 1, 9, 30, 15, 250_000, UTC)
REQUEST = turn_requested("demo")
NAME = f"demo/harper {REQUEST.turn_id}"
TOOL: dict[str, Any] = {"call": "1", "server": "argos", "tool": "search"}
SECRET = "what was said"


def claim(content: Claimed | CancelRequested) -> LogEntry:
    return LogEntry(1, "turn.claim", TurnClaim(turn_id=REQUEST.turn_id, team="demo", agent="harper", claim=content))


def test_a_claim_names_attempt_and_worker() -> None:
    assert lines_of(claim(Claimed(attempt=2, worker="w1", at=AT))) == [f"09:30:15.250 {NAME} attempt 2 by w1"]


def test_a_claim_that_only_ends_the_turn_is_no_attempt() -> None:
    lines = lines_of(claim(Claimed(attempt=2, worker="w1", ends=True, at=AT)))
    assert lines == [f"09:30:15.250 {NAME} claimed by w1 to end it"]


def test_a_cancel_names_its_reason() -> None:
    assert lines_of(claim(CancelRequested(reason="enough", at=AT))) == [f"09:30:15.250 {NAME} cancel: enough"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "completed"}, "completed after 1.500 s"),
        ({"status": "failed", "code": "worker_lost"}, "failed (worker_lost) after 1.500 s"),
        ({"status": "cancelled", "code": "cancelled"}, "cancelled after 1.500 s"),
    ],
    ids=["completed", "failed", "cancelled"],
)
def test_an_outcome_shows_status_code_and_duration(fields: dict[str, Any], words: str) -> None:
    times = {"requested_at": AT - timedelta(seconds=1.5), "ended_at": AT}
    outcome = turn_outcome(REQUEST, **fields).model_copy(update=times)
    assert lines_of(LogEntry(1, "turn.outcome", outcome)) == [f"09:30:15.250 {NAME} {words}"]


def test_events_of_one_message_are_a_line_each() -> None:
    at = int(AT.timestamp() * 1000)
    events = (Step(agent="harper", n=1, kind="llm", at=at), ToolStarted(**TOOL, at=at + 1))
    batch = TurnEvents(turn_id=REQUEST.turn_id, team="demo", agent="harper", attempt=1, events=events)
    assert lines_of(LogEntry(1, "turn.event", batch)) == [
        f"09:30:15.250 {NAME} harper step 1 (llm)",
        f"09:30:15.251 {NAME} argos/search: started",
    ]


@pytest.mark.parametrize(
    ("last", "state"), [(Step(agent="harper", n=1, kind="llm"), "running"), (HandedBack(), "waiting")]
)
def test_a_turn_waits_again_once_its_worker_has_given_it_back(last: AnyEvent, state: str) -> None:
    events = (Step(agent="harper", n=1, kind="llm"), last)
    batch = TurnEvents(turn_id=REQUEST.turn_id, team="demo", agent="harper", attempt=1, events=events)
    assert state_of(batch) == state


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ToolCompleted(**TOOL, duration_ms=12.34), "argos/search: completed in 12.3 ms"),
        (ToolFailed(**TOOL, duration_ms=1, code="tool_error"), "argos/search: failed (tool_error) in 1.0 ms"),
        (
            ModelCalled(agent="harper", model="offline", duration_ms=5, input_tokens=7, output_tokens=2),
            "offline answered harper in 5.0 ms (7 in, 2 out)",
        ),
        (TextDelta(agent="harper", text=SECRET), "text delta"),
        (ToolProgress(**TOOL, progress=1, message=SECRET), "tool progress"),
        (Result(content=({"type": "text", "text": SECRET},)), "result"),
        (Fault(message=SECRET), "fault"),
    ],
    ids=["completed", "failed", "model", "text", "progress", "result", "fault"],
)
def test_an_event_is_shown_in_a_few_words_without_its_content(event: AnyEvent, words: str) -> None:
    assert text_of(event) == words
