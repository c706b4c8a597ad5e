"""The bars of a turn's waterfall, and how many there are at most."""

from datetime import timedelta

import pytest
from pydantic import JsonValue
from tests.unit.cli.test_turn_timeline import BEGAN, NESTED, a_turn, done, model, step, tool

from pallas_contracts.costs import Cost
from pallas_contracts.ids import child_id
from pallas_contracts.turns import (
    AnyEvent,
    CancelRequested,
    Continued,
    Fault,
    HandedBack,
    ModelCalled,
    ModelFailed,
    Progress,
    Result,
    ToolFailed,
    ToolStarted,
)
from pallas_turns.history.timeline import beginning, timeline
from pallas_turns.history.turns import TurnHistory
from workspaces.answers import Bar
from workspaces.turns.bars import LONGEST_WORDS, bars_of
from workspaces.turns.views import line_of, shortened, view_of


def bars(turn: TurnHistory, most: int = 2_000) -> tuple[Bar, ...]:
    return bars_of(timeline(turn), beginning(turn), most=most)


def drawn(turn: TurnHistory) -> list[tuple[str, str, float | None]]:
    """The path of each bar, its kind and duration."""
    known = {bar.id: bar for bar in bars(turn)}

    def path(bar: Bar) -> str:
        return bar.what if bar.parent is None else f"{path(known[bar.parent])} > {bar.what}"

    return [(bar.kind, path(bar), bar.took_ms) for bar in known.values()]


def test_bars_are_nested_as_the_calls_were() -> None:
    attempt = "attempt 1 by w1"
    delegated = f"{attempt} > harper step 2 (tool) > research/search"
    assert drawn(NESTED) == [
        ("queue", "waited in the queue", 500.0),
        ("attempt", attempt, 1500.0),
        ("step", f"{attempt} > harper step 1 (llm)", 200.0),
        ("model", f"{attempt} > harper step 1 (llm) > offline", 200.0),
        ("step", f"{attempt} > harper step 2 (tool)", 1000.0),
        ("agent", delegated, 1000.0),
        ("step", f"{delegated} > research step 1 (llm)", 200.0),
        ("model", f"{delegated} > research step 1 (llm) > offline", 200.0),
        ("step", f"{delegated} > research step 2 (tool)", 700.0),
        ("tool", f"{delegated} > research step 2 (tool) > argos/search", 500.0),
        ("tool", f"{delegated} > research step 2 (tool) > argos/search", 600.0),
        ("step", f"{attempt} > harper step 3 (llm)", 300.0),
        ("model", f"{attempt} > harper step 3 (llm) > offline", 200.0),
        ("content", f"{attempt} > result", None),
        ("outcome", "completed", None),
    ]
    [chat, *_] = [bar for bar in bars(NESTED) if bar.kind == "model"]
    assert (chat.after_ms, chat.input_tokens, chat.output_tokens, chat.note) == (500.0, 7, 2, "")


def test_a_call_of_a_model_has_its_cost_and_one_that_failed_its_reason() -> None:
    cost = Cost(nanos=75_000, currency="USD")
    called = ModelCalled(agent="harper", model="m", duration_ms=100, cost=cost, cached_tokens=5)
    failed = ModelFailed(call="2", agent="harper", model="m", provider="p", duration_ms=100, code="rate_limited")
    turn = a_turn((0.1, [(0.2, step("harper", 1, "llm")), (0.3, called), (0.4, failed)]), ends=1)
    first, second = (bar for bar in bars(turn) if bar.kind == "model")
    assert (first.cost_nanos, first.currency, first.failed, first.note) == (75_000, "USD", False, "")
    assert (second.cost_nanos, second.failed, second.note) == (None, True, "failed (rate_limited)")
    what = [entry.what for entry in timeline(turn) if entry.kind == "model"]
    assert what == ["m answered (0 in (5 cached), 0 out, 0.000075 USD)", "m failed (rate_limited)"]


def test_a_running_turn_has_bars_without_an_end() -> None:
    turn = a_turn((0.1, [(0.2, step("harper", 1, "tool")), (0.2, tool("1"))]), ends=None)
    found = {bar.kind: bar for bar in bars(turn)}
    assert [found[kind].took_ms for kind in ("queue", "attempt", "step", "tool")] == [100.0, None, None, None]
    assert "outcome" not in found
    view = view_of(turn, content=False)
    assert (view.turn.state, view.turn.took_ms, view.can_replay) == ("running", None, False)
    assert view.why_not is not None


def test_what_another_worker_took_over_is_marked_and_its_wait_is_a_bar() -> None:
    first: list[tuple[float, AnyEvent]] = [
        (0.2, model("harper", 0.1).model_copy(update={"call": "1"})),
        (0.2, tool("1.1")),
        (0.3, done("1.1", 0.1)),
        (0.3, HandedBack()),
    ]
    turn = a_turn((0.1, first), (0.5, [(0.5, Continued(n=2, taken=("1", "1.1")))]), ends=0.8)
    found = bars(turn)
    assert [bar.what for bar in found if bar.taken_over] == ["offline", "argos/search"]
    assert [(bar.what, bar.took_ms) for bar in found if bar.kind == "queue"][1:] == [("waited for another worker", 200)]
    assert [bar.note for bar in found if bar.kind == "attempt"] == [
        "handed back: the worker drains",
        "goes on at step 2 with 2 answers of earlier attempts",
    ]
    line = line_of(turn)
    assert (line.attempts, line.worker, line.queued_ms, line.took_ms) == (2, "w2", 100.0, 800.0)


def test_a_call_of_an_agent_of_the_platform_leads_to_its_turn() -> None:
    called = ToolStarted(call="3.1", server="demo/research", tool="search", leaf=False)
    turn = a_turn((0.1, [(0.2, called)]), ends=0.8)
    [bar] = [bar for bar in bars(turn) if bar.kind == "agent"]
    assert (bar.what, bar.turn_id) == ("demo/research/search", child_id(turn.turn_id, "3.1"))


def test_a_failed_tool_and_a_cancel_are_bars() -> None:
    failed = ToolFailed(call="1", server="argos", tool="search", duration_ms=100, code="tool_error")
    turn = a_turn((0.1, [(0.2, tool("1")), (0.3, failed)]), ends=None)
    turn.cancel = CancelRequested(reason="enough", at=BEGAN + timedelta(seconds=0.4))
    found = {bar.kind: bar for bar in bars(turn)}
    assert (found["tool"].failed, found["tool"].note) == (True, "failed (tool_error)")
    assert (found["cancel"].what, found["cancel"].after_ms) == ("cancel: enough", 400.0)


def test_the_message_of_a_fault_is_shown_without_the_content() -> None:
    view = view_of(a_turn((0.1, [(0.2, Fault(message="the model could not be called"))]), ends=0.3), content=False)
    assert (view.fault, view.content) == ("the model could not be called", None)


def a_pipeline(calls: int) -> TurnHistory:
    """A turn with that many calls of 1 ms, a slow one in the middle and a failed one at its end."""
    events: list[tuple[float, AnyEvent]] = []
    for number in range(calls):
        at, took = 1 + number / 1000, 0.5 if number == calls // 2 else 0.001
        events += [(at, tool(str(number))), (at, Progress(progress=number)), (at + took, done(str(number), took))]
    failed = ToolFailed(call="last", server="argos", tool="fails", duration_ms=0, code="tool_error")
    events += [(calls, tool("last")), (calls, failed), (calls, Result())]
    return a_turn((0.5, events), ends=calls + 1)


def test_a_big_turn_has_a_bounded_number_of_bars_and_says_what_is_left_out() -> None:
    turn = a_pipeline(5_000)
    assert len(timeline(turn)) > 10_000
    found = bars(turn)
    assert len(found) == 2_000
    assert {bar.parent for bar in found} <= {None, *(bar.id for bar in found)}
    assert [bar.id for bar in found] == list(range(2_000))
    assert max(bar.took_ms or 0 for bar in found if bar.kind == "tool") == 500.0
    assert any(bar.failed for bar in found)
    assert found[-1].kind == "outcome"
    [attempt] = [bar for bar in found if bar.kind == "attempt"]
    assert attempt.note == "and 8,005 more: 5,001 events, 3,004 tools (3.004 s)"


def test_all_bars_of_a_turn_that_fits_are_there_and_none_sums_up() -> None:
    turn = a_pipeline(100)
    assert len(bars(turn)) == len(timeline(turn)) == 205
    assert not any("more:" in bar.note for bar in bars(turn))
    assert len(bars(turn, most=10)) == 10


@pytest.mark.parametrize("most", [1, 3, 7, 15])
def test_a_bar_is_never_without_the_one_that_contains_it(most: int) -> None:
    found = bars(NESTED, most=most)
    assert len(found) <= most
    assert {bar.parent for bar in found} <= {None, *(bar.id for bar in found)}


def test_hostile_names_are_cut() -> None:
    named = ModelCalled(agent="harper", model="x" * 10_000, duration_ms=1)
    [bar] = [bar for bar in bars(a_turn((0.1, [(0.2, named)]), ends=1)) if bar.kind == "model"]
    assert len(bar.what) == LONGEST_WORDS + 1


def test_long_texts_are_cut_wherever_they_are() -> None:
    value: JsonValue = {"images": [{"data": "x" * 100, "n": 1}], "message": "short", "none": None}
    assert shortened(value, 10) == {
        "images": [{"data": "xxxxxxxxxx… (90 characters more)", "n": 1}],
        "message": "short",
        "none": None,
    }
