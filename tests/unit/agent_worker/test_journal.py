"""The journal: what the log says of earlier attempts, and a later attempt of an agent that goes on from it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.messages import (
    BinaryContent,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from tests.journals import BEGAN, attempt_of, journal_of
from tests.runtimes import Events, a_turn, text_of
from tests.scripted import BOB, CLERK, Scripted, an_agent, call

from agent_worker.llm.calls import AgentJournal
from agent_worker.llm.runtime import LlmRuntime
from pallas_bus.reads import Record
from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    Claimed,
    Continued,
    HandedBack,
    ModelCalled,
    Restarted,
    Step,
    TextDelta,
    ToolFailed,
    ToolStarted,
    TurnClaim,
    TurnEvents,
)
from pallas_turns.journal import NO_JOURNAL, Boundary, Journal, fold_journal, logged_attempts
from pallas_turns.runtime import Failed, JournalUnusable, Outcome, Steps, Turn

STEP = Step(agent="harper", n=1, kind="llm")


def started(number: str, *, safe: bool = False, leaf: bool = True) -> ToolStarted:
    return ToolStarted(call=number, server="argos", tool=f"t{number}", leaf=leaf, safe=safe)


def answered(number: str, answer: str | None = "{}") -> Answered:
    return Answered(call=number, basis="b", answer=answer)


def facts(journal: Journal) -> tuple[list[str], list[str], bool]:
    return list(journal.answers), list(journal.unknown), journal.behind_gap


CASES: list[tuple[list[list[AnyEvent]], tuple[list[str], list[str], bool]]] = [
    ([[STEP, answered("1"), started("1.1")]], (["1"], ["1.1"], False)),
    ([[answered("1"), started("1.1"), answered("1.1")]], (["1", "1.1"], [], False)),
    ([[answered("1"), started("1.1", safe=True)]], (["1"], [], False)),
    ([[answered("1"), started("1.1", leaf=False)]], (["1"], [], False)),
    ([[answered("1"), started("1.1")], [answered("1.1")]], (["1", "1.1"], [], False)),
    ([[answered("1"), answered("2")], [Restarted(), answered("1")]], (["1"], [], False)),
    ([[answered("1", None), answered("2")]], ([], [], False)),
    ([[answered("1"), started("1.1"), answered("1.1", None), started("1.2")]], (["1"], ["1.1", "1.2"], True)),
]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    CASES,
    ids=["started", "answered", "safe", "sub-agent", "told", "restarted", "no answer", "unreadable"],
)
def test_the_journal_has_what_was_answered_and_what_is_unknown(
    attempts: list[list[AnyEvent]], expected: tuple[list[str], list[str], bool]
) -> None:
    assert facts(journal_of(*attempts)) == expected


@pytest.mark.parametrize("missing", [1, 2])
def test_a_journal_is_cut_at_a_gap_and_a_tool_that_started_behind_it_is_unknown(missing: int) -> None:
    events = [answered("1"), STEP, answered("2"), started("2.1"), answered("2.1")]
    journal = fold_journal([attempt_of(1, events, missing=[missing])], 2)
    assert facts(journal) == (["1"] if missing == 2 else [], ["2.1"], True)


@pytest.mark.parametrize(("kind", "unreadable"), [("event", True), ("content", False)])
def test_what_cannot_be_decoded_is_a_gap_and_may_have_been_the_start_of_a_tool(kind: str, unreadable: bool) -> None:
    claimed = TurnClaim(turn_id="1", team="red", agent="a", claim=Claimed(attempt=1, worker="w", at=BEGAN))
    events = TurnEvents(
        turn_id="1", team="red", agent="a", attempt=1, events=(answered("2").model_copy(update={"seq": 2}),)
    )
    messages = [("claim", claimed.model_dump_json()), (kind, '{"attempt": 1}'), ("content", events.model_dump_json())]
    records = [
        Record(f"pallas.v1.turn.{name}.red.a.1", seq, BEGAN, data.encode(), {})
        for seq, (name, data) in enumerate(messages, 1)
    ]
    journal = fold_journal(logged_attempts(records), 2)
    assert (journal.answers, journal.unreadable) == ({}, unreadable)


def test_an_attempt_that_was_handed_back_is_not_lost_and_time_counts_from_the_first_claim() -> None:
    attempts = [attempt_of(1, [STEP, HandedBack()]), attempt_of(2, [STEP]), attempt_of(3, [HandedBack()])]
    journal = fold_journal([*attempts, attempt_of(4, [])], 4)
    assert (journal.lost, journal.elapsed) == (1, 3.0)
    assert fold_journal([], 1) == NO_JOURNAL


# ------------------------------------------------------------------ agents with a model


NESTED: list[list[ModelResponsePart] | str] = [
    [TextPart("first "), ToolCallPart(CLERK, {"message": "/say one"}, tool_call_id="1")],
    [
        ToolCallPart(BOB, {"message": "/say two"}, tool_call_id="1"),
        ToolCallPart("no__such", {}, tool_call_id="2"),
        ToolCallPart(CLERK, "{", tool_call_id="3"),
    ],
    [ThinkingPart("hm", signature="s"), ToolCallPart(CLERK, {"message": "/say three"}, tool_call_id="1")],
    "done",
]


async def attempt(agent: LlmRuntime, journal: Journal = NO_JOURNAL, **fields: Any) -> tuple[Outcome, Events]:
    events = Events()
    turn = replace(a_turn(message="ask"), journal=journal, **fields)
    return await agent.run_turn(turn, events), events


def model_calls(events: Sequence[AnyEvent]) -> list[str]:
    return [event.call for event in events if isinstance(event, ModelCalled)]


def kept(events: Sequence[AnyEvent]) -> list[str]:
    return [event.call for event in events if isinstance(event, Answered)]


async def test_wherever_an_attempt_ends_the_next_makes_only_the_calls_without_an_answer() -> None:
    whole, first = await attempt(an_agent(Scripted(*NESTED)))
    for length in range(len(first.all) + 1):
        journal = journal_of(first.all[:length])
        script = Scripted(*NESTED[sum(len(call) == 1 for call in journal.answers) :])
        outcome, events = await attempt(an_agent(script), journal)
        assert text_of(outcome) == text_of(whole)
        assert sorted([*journal.answers, *kept(events.all)]) == sorted(kept(first.all))
        assert not set(model_calls(events.all)) & set(journal.answers)


async def test_a_third_attempt_goes_on_from_both_before_it() -> None:
    whole, first = await attempt(an_agent(Scripted(*NESTED)))
    cut = first.all.index(next(event for event in first.of(Answered) if event.call == "1")) + 1
    _, second = await attempt(an_agent(Scripted(*NESTED[1:])), journal_of(first.all[:cut]))
    rest = second.all.index(next(event for event in second.of(Answered) if event.call == "2.1")) + 1
    script = Scripted(*NESTED[2:])
    outcome, _ = await attempt(an_agent(script), journal_of(first.all[:cut], second.all[:rest]))
    assert text_of(outcome) == text_of(whole)
    assert len(script.asked) == 2


async def test_what_was_taken_over_is_not_reported_again_and_the_step_is_that_of_the_whole_turn() -> None:
    _, first = await attempt(an_agent(Scripted(*NESTED)))
    cut = first.all.index(next(event for event in first.of(Step) if event.n == 5 and event.agent == "harper"))
    _, second = await attempt(an_agent(Scripted(*NESTED[2:])), journal_of(first.all[:cut]))
    assert second.all[0] == Continued(n=5, taken=("1", "1.1.1", "1.1", "2", "2.2", "2.3", "2.1.1", "2.1"))
    assert second.lines()[0] == "harper step 5 (llm)"
    assert [event.text for event in second.of(TextDelta) if event.agent == "harper"] == ["done"]


async def test_a_turn_whose_last_answer_was_kept_ends_without_a_call() -> None:
    whole, first = await attempt(an_agent(Scripted(*NESTED)))
    script = Scripted()
    outcome, events = await attempt(an_agent(script), journal_of(first.all))
    assert text_of(outcome) == text_of(whole)
    assert (script.asked, events.all) == ([], [])


async def test_an_agent_that_has_changed_starts_anew() -> None:
    _, first = await attempt(an_agent(Scripted([call(CLERK)], "old")))
    script = Scripted([call(BOB)], "new")
    outcome, events = await attempt(an_agent(script, instruction="Be brief."), journal_of(first.all))
    assert text_of(outcome) == "new"
    assert events.all[0] == Restarted()
    assert events.of(Continued) == []


async def test_an_answer_that_cannot_be_read_makes_the_turn_start_anew() -> None:
    _, first = await attempt(an_agent(Scripted([call(CLERK)], "old")))
    broken = [it.model_copy(update={"answer": "{"}) if isinstance(it, Answered) else it for it in first.all]
    outcome, events = await attempt(an_agent(Scripted([call(BOB)], "new")), journal_of(broken))
    assert text_of(outcome) == "new"
    assert len(events.of(Restarted)) == 1


async def test_an_agent_that_has_changed_fails_if_a_tool_may_have_had_an_effect() -> None:
    _, first = await attempt(an_agent(Scripted([call(CLERK)], "old")))
    journal = journal_of([*first.all, started("9.1"), answered("9.1")])
    outcome, events = await attempt(an_agent(Scripted("new"), instruction="Be brief."), journal)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.retryable) == ("worker_lost", False)
    assert "argos/t9.1" in outcome.message
    assert events.all == []


async def test_a_model_that_may_be_told_hears_that_the_outcome_is_unknown() -> None:
    _, first = await attempt(an_agent(Scripted([call(CLERK), call(BOB, number="2")], "old")))
    both = [it for it in first.all if not (isinstance(it, Answered) and it.call in ("1.1", "1.1.1", "2"))]
    script = Scripted("I shall check")
    outcome, events = await attempt(an_agent(script), journal_of([*both, started("1.1")]))
    assert text_of(outcome) == "I shall check"
    told, other = script.results()
    assert (told.outcome, other.outcome) == ("failed", "success")
    assert "is unknown" in str(told.content)
    assert [event.code for event in events.of(ToolFailed)] == ["outcome_unknown"]
    assert "1.1" in kept(events.all)


async def test_an_answer_that_cannot_be_kept_is_a_gap_and_a_drain_does_not_stop_its_turn() -> None:
    class Full(Events):
        async def answered(self, event: Answered) -> bool:
            return await super().answered(event.model_copy(update={"answer": None}) if event.call == "1" else event)

    boundary, reached, first = Boundary(), asyncio.Event(), Full()
    script = Scripted([ToolCallPart(CLERK, {"message": "/say one"}, tool_call_id="1")], "done")
    turn: Turn = replace(a_turn(message="ask"), boundary=boundary)
    running = asyncio.create_task(an_agent(script).run_turn(turn, first))
    await first.until(ToolStarted)
    boundary.stop(reached.set)
    assert text_of(await running) == "done"
    assert not reached.is_set()
    assert kept(first.all) == ["1", "1.1.1", "1.1", "2"]
    assert facts(journal_of(first.all)) == ([], [], False)
    assert facts(journal_of([*first.all, started("1.2")])) == ([], ["1.2"], True)


async def test_messages_survive_the_journal_to_the_letter() -> None:
    events = Events()
    steps = Steps(a_turn(), events)
    response = ModelResponse(
        [ThinkingPart("hm", signature="s"), TextPart("x"), call("a", {"n": [1, 2.5, None]})],
        provider_details={"finish_reason": "stop"},
        provider_response_id="r1",
        finish_reason="tool_call",
    )
    image = BinaryContent(b"\x00\xff", media_type="image/png")
    result = ToolReturnPart("a", ["text", image], "1", outcome="failed")
    journal = AgentJournal(steps, "harper", "b")
    await journal.add_response("1", response)
    await journal.add_result("1.1", result)
    again = AgentJournal(Steps(replace(a_turn(), journal=journal_of(events.all)), Events()), "harper", "b")
    assert again.response("1") == response
    read = again.result("1.1", "a")
    assert read is not None
    assert read.model_response_object() == result.model_response_object()
    files = [(file.data, file.media_type) for file in read.files if isinstance(file, BinaryContent)]
    assert files == [(image.data, image.media_type)]
    with pytest.raises(JournalUnusable, match="was 'a', and is 'b' now"):
        again.result("1.1", "b")
    assert json.loads(events.of(Answered)[0].answer or "")["provider_response_id"] == "r1"


# ------------------------------------------------------------------ boundaries


async def test_a_turn_stops_at_its_next_boundary_and_the_next_attempt_finishes_it() -> None:
    boundary, reached, first = Boundary(), asyncio.Event(), Events()
    script = Scripted(*NESTED)
    turn: Turn = replace(a_turn(message="ask"), boundary=boundary)
    running = asyncio.create_task(an_agent(script).run_turn(turn, first))
    await first.until(ToolStarted)
    boundary.stop(reached.set)
    await reached.wait()
    running.cancel()
    await asyncio.wait({running})
    assert "1" in kept(first.all)
    journal = journal_of([*first.all, HandedBack()])
    rest = Scripted(*NESTED[len(script.asked) :])
    outcome, second = await attempt(an_agent(rest), journal)
    assert text_of(outcome) == "first \n\ndone"
    assert sorted([*kept(first.all), *kept(second.all)]) == sorted(
        ["1", "1.1", "1.1.1", "2", "2.1", "2.1.1", "2.2", "2.3", "3", "3.1", "3.1.1", "4"]
    )


async def test_steps_that_are_under_way_end_before_the_boundary_is_reached() -> None:
    boundary, reached, go_on = Boundary(), asyncio.Event(), asyncio.Event()

    async def one() -> None:
        async with boundary.step():
            await go_on.wait()
            async with boundary.step():
                pass

    async def another() -> None:
        async with boundary.step():
            pass

    running = asyncio.create_task(one())
    await asyncio.sleep(0)
    boundary.stop(reached.set)
    waiting = asyncio.create_task(another())
    await asyncio.sleep(0)
    assert not reached.is_set()
    go_on.set()
    await running
    assert reached.is_set()
    assert not waiting.done()
    waiting.cancel()


async def test_a_turn_that_holds_its_worker_is_not_stopped() -> None:
    boundary, reached = Boundary(), asyncio.Event()
    boundary.hold()
    boundary.stop(reached.set)

    async def step() -> None:
        async with boundary.step():
            pass

    await step()
    assert not reached.is_set()
