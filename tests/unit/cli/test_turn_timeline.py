"""A turn as a timeline and as a tree, and two of them side by side."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.builders import turn_outcome, turn_requested

from pallas_cli.turns.show import Node, lines_side_by_side, timeline_lines, tree_lines, tree_of
from pallas_contracts.turns import (
    AnyEvent,
    CancelRequested,
    Claimed,
    Continued,
    Fault,
    HandedBack,
    ModelCalled,
    Restarted,
    Result,
    Step,
    TextDelta,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
)
from pallas_turns.history.contents import content_of, text_of
from pallas_turns.history.timeline import timeline, times_of
from pallas_turns.history.turns import AttemptHistory, TurnHistory

BEGAN = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def a_turn(*attempts: tuple[float, list[tuple[float, AnyEvent]]], ends: float | None) -> TurnHistory:
    """A turn whose attempts were claimed then, with events at their times."""
    request = turn_requested("red").model_copy(update={"requested_at": BEGAN})
    turn = TurnHistory("red", "harper", request.turn_id)
    for number, (claimed, events) in enumerate(attempts, 1):
        claim = Claimed(attempt=number, worker=f"w{number}", requested_at=BEGAN, at=at(claimed))
        numbered = [
            event.model_copy(update={"seq": seq, "at": round(at(when).timestamp() * 1000)})
            for seq, (when, event) in enumerate(events, 1)
        ]
        turn.attempts[number] = AttemptHistory(claim, {event.seq: event for event in numbered})
    if ends is not None:
        outcome = turn_outcome(request, attempt=len(attempts))
        turn.outcome = outcome.model_copy(update={"requested_at": BEGAN, "ended_at": at(ends)})
    return turn


def tool(call: str, server: str = "argos", *, leaf: bool = True) -> ToolStarted:
    return ToolStarted(call=call, server=server, tool="search", leaf=leaf)


def done(call: str, seconds: float, server: str = "argos") -> ToolCompleted:
    return ToolCompleted(call=call, server=server, tool="search", duration_ms=seconds * 1000)


def model(agent: str, seconds: float) -> ModelCalled:
    return ModelCalled(agent=agent, model="offline", duration_ms=seconds * 1000, input_tokens=7, output_tokens=2)


def step(agent: str, number: int, kind: Any) -> Step:
    return Step(agent=agent, n=number, kind=kind)


NESTED = a_turn(
    (
        0.5,
        [
            (0.5, step("harper", 1, "llm")),
            (0.7, model("harper", 0.2)),
            (0.7, step("harper", 2, "tool")),
            (0.7, tool("1", "research", leaf=False)),
            (0.8, step("research", 1, "llm")),
            (1.0, model("research", 0.2)),
            (1.0, step("research", 2, "tool")),
            (1.0, tool("2")),
            (1.0, tool("3")),
            (1.5, done("2", 0.5)),
            (1.6, done("3", 0.6)),
            (1.7, done("1", 1.0, "research")),
            (1.7, step("harper", 3, "llm")),
            (1.9, model("harper", 0.2)),
            (1.9, Result()),
        ],
    ),
    ends=2.0,
)


def test_calls_are_nested_in_steps_and_a_sub_agent_in_its_call() -> None:
    assert timeline_lines(NESTED) == [
        "    after      took",
        "    0.000     0.500  waited in the queue",
        "    0.500     1.500  attempt 1 by w1",
        "    0.500     0.200    harper step 1 (llm)",
        "    0.500     0.200      offline answered (7 in, 2 out)",
        "    0.700     1.000    harper step 2 (tool)",
        "    0.700     1.000      research/search",
        "    0.800     0.200        research step 1 (llm)",
        "    0.800     0.200          offline answered (7 in, 2 out)",
        "    1.000     0.700        research step 2 (tool)",
        "    1.000     0.500          argos/search",
        "    1.000     0.600          argos/search",
        "    1.700     0.300    harper step 3 (llm)",
        "    1.700     0.200      offline answered (7 in, 2 out)",
        "    1.900              result",
        "    2.000            completed",
    ]


def test_answers_that_a_later_attempt_has_taken_over_are_marked() -> None:
    first: list[tuple[float, AnyEvent]] = [
        (0.2, model("harper", 0.1).model_copy(update={"call": "1"})),
        (0.2, tool("1.1")),
        (0.3, done("1.1", 0.1)),
        (0.3, tool("1.2")),
        (0.4, HandedBack()),
    ]
    turn = a_turn(
        (0.1, first), (0.5, [(0.5, Restarted())]), (0.6, [(0.7, Continued(n=2, taken=("1", "1.1")))]), ends=0.8
    )
    assert timeline_lines(turn)[2:-1] == [
        "    0.100     0.300  attempt 1 by w1",
        "    0.100     0.100    offline answered (7 in, 2 out); taken over",
        "    0.200     0.100    argos/search; taken over",
        "    0.300              argos/search",
        "    0.400              handed back: the worker drains",
        "    0.400     0.100  waited for another worker",
        "    0.500     0.000  attempt 2 by w2",
        "    0.500              starts anew: the agent has changed, or an answer of an earlier attempt cannot be read",
        "    0.500     0.100  the worker was lost, noticed after 0.1 s",
        "    0.600     0.200  attempt 3 by w3",
        "    0.700              goes on at step 2 with 2 answers of earlier attempts",
    ]
    assert [it.as_json(BEGAN)["taken_over"] for it in timeline(turn)[1:5]] == [False, True, True, False]


def test_one_answer_is_not_called_answers() -> None:
    assert text_of(Continued(n=2, taken=("1",))) == "goes on at step 2 with 1 answer of earlier attempts"


def test_times_are_added_up_and_parallel_calls_do_not_hide_the_rest() -> None:
    times = times_of(timeline(NESTED))
    assert (times.model_calls, times.tool_calls) == (3, 2)
    found = [round(value, 3) for value in (times.total, times.queued, times.models, times.tools, times.rest)]
    assert found == [2.0, 0.5, 0.6, 1.1, 0.3]
    words = "2.000 s: 0.500 s waiting, 0.600 s in 3 model calls, 1.100 s in 2 tool calls, 0.300 s other"
    assert str(times) == words
    assert "in 1 tool call, " in str(replace(times, tool_calls=1))


def test_what_a_lost_worker_did_ends_when_it_was_heard_of_last() -> None:
    progress = ToolProgress(call="1", server="argos", tool="search", progress=0.5, message="half")
    turn = a_turn((0.1, [(0.2, tool("1")), (1.0, progress)]), (5.1, [(5.2, Result())]), ends=5.3)
    entries = [(entry.what, entry.attempt, entry.took, entry.failed) for entry in timeline(turn)]
    assert entries == [
        ("waited in the queue", 0, 0.1, False),
        ("attempt 1 by w1", 1, 0.9, True),
        ("argos/search", 1, 0.8, True),
        ("the worker was lost, noticed after 4.1 s", 1, 4.1, False),
        ("attempt 2 by w2", 2, 0.2, False),
        ("result", 2, None, False),
        ("completed", 0, None, False),
    ]
    assert round(times_of(timeline(turn)).rest, 3) == 0.3


@pytest.mark.parametrize(("code", "known"), [("worker_lost", True), ("internal", False)])
def test_the_last_attempt_of_a_turn_is_lost_only_if_the_outcome_says_so(code: str, *, known: bool) -> None:
    turn = a_turn((0.1, [(0.2, tool("1"))]), ends=5.3)
    assert turn.outcome is not None
    turn.outcome = turn.outcome.model_copy(update={"status": "failed", "code": code})
    assert ("the worker was lost, noticed after 5.1 s" in [entry.what for entry in timeline(turn)]) is known


@pytest.mark.parametrize(("status", "failed"), [("completed", False), ("failed", True), ("cancelled", False)])
def test_an_outcome_is_failed_only_if_the_turn_is(status: str, failed: bool) -> None:
    turn = a_turn(ends=0.5)
    assert turn.outcome is not None
    turn.outcome = turn.outcome.model_copy(update={"status": status})
    assert [entry.failed for entry in timeline(turn) if entry.kind == "outcome"] == [failed]


def test_a_failed_call_shows_its_code_and_a_running_turn_has_no_end() -> None:
    failed = ToolFailed(call="1", server="argos", tool="search", duration_ms=100, code="tool_error")
    turn = a_turn((0.1, [(0.2, tool("1")), (0.3, failed)]), ends=None)
    entries = [(entry.what, entry.took) for entry in timeline(turn)]
    assert entries == [
        ("waited in the queue", 0.1),
        ("attempt 1 by w1", None),
        ("argos/search: failed (tool_error)", 0.1),
    ]


def test_steps_after_a_failed_call_of_a_sub_agent_are_not_nested_in_it() -> None:
    refused = ToolFailed(call="1", server="research", tool="search", duration_ms=0, code="unknown_tool")
    events: list[tuple[float, AnyEvent]] = [
        (0.1, step("research", 1, "tool")),
        (0.1, tool("1", "research", leaf=False)),
        (0.1, refused),
        (0.2, step("research", 2, "llm")),
    ]
    depths = {entry.what: entry.depth for entry in timeline(a_turn((0.1, events), ends=0.3))}
    assert depths["research step 1 (tool)"] == depths["research step 2 (llm)"] == 1


def test_a_turn_without_events_has_an_empty_timeline() -> None:
    turn = TurnHistory("red", "harper", "t1")
    assert timeline(turn) == []
    assert times_of([]).total == 0.0
    assert timeline_lines(turn) == ["    after      took"]


def test_a_call_that_was_cancelled_before_it_came_does_not_wait() -> None:
    turn = TurnHistory("red", "harper", "t1", cancel=CancelRequested(reason="cancelled by key", at=BEGAN))
    assert turn.state == "cancelled"
    assert replace(turn, request=turn_requested("red")).state == "waiting"


def test_texts_of_each_agent_are_joined_and_the_result_is_the_answer() -> None:
    events: list[tuple[float, AnyEvent]] = [
        (0.2, TextDelta(agent="harper", text="one ")),
        (0.3, TextDelta(agent="harper", text="two")),
        (0.4, TextDelta(agent="research", text="three")),
        (0.5, Result(content=({"type": "text", "text": "four"}, {"type": "image", "data": ""}))),
    ]
    content = content_of(a_turn((0.1, events), ends=1.0))
    assert content.texts == (("harper", "one two"), ("research", "three"))
    assert content.text == "four\n(image)"


def test_answers_are_compared_by_content_and_not_when_one_is_missing() -> None:
    def answered(event: AnyEvent | None, when: float = 0.5) -> TurnHistory:
        return a_turn((0.1, [(when, event)] if event is not None else []), ends=1.0)

    one, same = Result(content=({"type": "text", "text": "a"},)), Result(content=({"type": "text", "text": "a"},))
    other = Result(content=({"type": "text", "text": "a"},), is_error=True)
    assert content_of(answered(one)).equals(content_of(answered(same, 0.7))) is True
    assert content_of(answered(one)).equals(content_of(answered(other))) is False
    assert content_of(answered(one)).equals(content_of(answered(Fault(message="a")))) is False
    assert content_of(answered(one)).equals(content_of(answered(None))) is None


BAR = 33


def drawn(turn: TurnHistory) -> list[str]:
    """The lines without the bars."""
    return [line[:20] + line[20 + BAR :] for line in tree_lines(turn)]


def test_the_steps_of_one_run_of_an_agent_are_one_span() -> None:
    assert drawn(NESTED) == [
        "    after      took",
        "    0.000     0.500 ├─ wait_in_queue",
        "    0.500     1.500 └─ take_turn attempt 1 by w1",
        "    0.500     1.500    └─ invoke_agent harper",
        "    0.500     0.200       ├─ chat offline (7 in, 2 out)",
        "    0.700     1.000       ├─ execute_tool search",
        "    0.800     0.900       │  └─ invoke_agent research",
        "    0.800     0.200       │     ├─ chat offline (7 in, 2 out)",
        "    1.000     0.500       │     ├─ execute_tool argos__search",
        "    1.000     0.600       │     └─ execute_tool argos__search",
        "    1.700     0.200       └─ chat offline (7 in, 2 out)",
    ]


def test_a_bar_shows_the_part_of_the_turn_that_a_span_took() -> None:
    bars = [line[20 : 20 + BAR - 1] for line in tree_lines(NESTED)[1:4]]
    assert bars == [
        "|========                      |",
        "|        ======================|",
        "|        ======================|",
    ]


def test_attempts_are_siblings_and_an_unfinished_one_has_no_duration() -> None:
    turn = a_turn((0.1, [(0.2, tool("1"))]), (5.1, [(5.2, step("harper", 1, "llm"))]), ends=None)
    [_, first, second] = tree_of(turn)
    assert (first.name, first.took, second.name, second.took) == ("take_turn", 0.1, "take_turn", None)
    assert [child.took for child in (*first.children, *second.children)] == [0.0, None]
    assert all("=" in line for line in tree_lines(turn)[1:])


def test_a_failed_tool_shows_its_code() -> None:
    failed = ToolFailed(call="1", server="argos", tool="search", duration_ms=100, code="tool_error")
    [*_, attempt] = tree_of(a_turn((0.1, [(0.2, tool("1")), (0.3, failed)]), ends=0.4))
    [call] = attempt.children
    assert (call.failed, call.note) == (True, "failed (tool_error)")


def test_a_sub_agent_that_is_called_twice_has_two_runs() -> None:
    events: list[tuple[float, AnyEvent]] = [
        (0.1, step("harper", 1, "tool")),
        (0.2, tool("1", "research", leaf=False)),
        (0.2, step("research", 1, "llm")),
        (0.3, model("research", 0.05)),
        (0.3, done("1", 0.1, "research")),
        (0.4, step("harper", 2, "tool")),
        (0.4, tool("2", "research", leaf=False)),
        (0.4, step("research", 2, "llm")),
        (0.5, done("2", 0.1, "research")),
    ]
    [*_, attempt] = tree_of(a_turn((0.1, events), ends=1.0))
    [harper] = attempt.children
    assert [names(call) for call in harper.children] == [["invoke_agent research"], ["invoke_agent research"]]


def names(node: Node) -> list[str]:
    """The names of its children."""
    return [child.name for child in node.children]


def test_a_turn_without_events_has_no_tree() -> None:
    assert tree_lines(TurnHistory("red", "harper", "t1")) == ["    after      took"]


def test_two_turns_are_shown_side_by_side_in_a_wide_terminal() -> None:
    lines = lines_side_by_side(NESTED, NESTED, 160)
    assert all(len(line) <= 160 for line in lines)
    both = [line.split(" | ") for line in lines if " | " in line]
    assert all(left.rstrip() == right for left, right in both if right)
    assert "    0.700     1.000      research/search" in [right for _, right in both]
    assert lines[-1] == "The answers are equal."


def test_two_turns_are_shown_one_above_the_other_in_a_narrow_terminal() -> None:
    other = a_turn((0.1, [(0.2, Result(content=({"type": "text", "text": "else"},)))]), ends=0.3)
    lines = lines_side_by_side(NESTED, other, 80)
    assert not any(" | " in line for line in lines)
    assert lines[0].startswith("old: ")
    assert "else" in lines
    assert lines[-1] == "The answers differ."


def test_an_answer_without_content_cannot_be_compared() -> None:
    assert lines_side_by_side(NESTED, a_turn((0.1, []), ends=0.3), 160)[-1].startswith("The answers cannot be compared")
