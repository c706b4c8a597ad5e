"""Every rule of the checker can fail: sound evidence is doctored in one place, and the rule finds it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.chaos.checker import RULES, check
from tests.chaos.effects import Effect
from tests.chaos.evidence import Answer, At, CallerView, Child, Evidence, LoggedTurn
from tests.chaos.programs import Node, Program
from tests.chaos.report import facts, markdown
from tests.chaos.run import Options, Result

from pallas_contracts.ids import child_id
from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    CancelRequested,
    Claimed,
    ModelCalled,
    Progress,
    ToolFailed,
    ToolStarted,
    TurnOutcome,
)
from pallas_contracts.turns import Result as Said

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ONE, TWO, STOPPED, STEPS = "a" * 32, "b" * 32, "c" * 32, "f" * 32
EXECUTION, FAILED = "1" * 32, "2" * 32
PROGRAM = Program(
    "", (Node("1", "ledger"), Node("2", "notes", tries=2), Node("3", "ledger", taken=False)), {"total": 3}
)


def at[T](position: int, record: T) -> At[T]:
    return At(position, NOON + timedelta(seconds=position), record)


def claim(attempt: int) -> Claimed:
    return Claimed(attempt=attempt, worker=f"w{attempt}", at=NOON)


def outcome(turn: str, attempt: int, events: int, **fields: object) -> TurnOutcome:
    given = {"status": "completed", "requested_at": NOON, "ended_at": NOON} | fields
    return TurnOutcome.model_validate(
        {"turn_id": turn, "team": "chaos", "agent": "ledger", "attempt": attempt, "events": events} | given
    )


def step(seq: int, attempt: int, number: int) -> tuple[int, AnyEvent]:
    return attempt, Progress(seq=seq, progress=number, message=f"k1 attempt {attempt} step {number}")


def started(seq: int, attempt: int) -> tuple[int, AnyEvent]:
    return attempt, ToolStarted(seq=seq, call="1", server="ledger", tool="append")


def answered(seq: int, attempt: int, text: str) -> tuple[int, AnyEvent]:
    return attempt, Said(seq=seq, content=({"type": "text", "text": text},))


def called(seq: int, attempt: int, call: str) -> tuple[int, AnyEvent]:
    return attempt, ModelCalled(seq=seq, call=call, agent="planner", model="offline", duration_ms=1.0)


def counted(seq: int, attempt: int, call: str, *, safe: bool = False) -> tuple[int, AnyEvent]:
    return attempt, ToolStarted(seq=seq, call=call, server="counter", tool="count", safe=safe)


def entry(seq: int, attempt: int, call: str) -> tuple[int, AnyEvent]:
    return attempt, Answered(seq=seq, call=call, basis="count", answer="{}")


def steps() -> LoggedTurn:
    """Two steps of a model with a tool in each; the worker was lost before the model had answered in the second one."""
    turn = LoggedTurn(STEPS, "planner")
    turn.claims = [at(31, claim(1)), at(36, claim(2))]
    turn.events = [at(32, called(1, 1, "1")), at(33, entry(2, 1, "1"))]
    turn.events += [at(34, counted(3, 1, "1.1")), at(35, entry(4, 1, "1.1"))]
    turn.events += [at(37, called(1, 2, "2")), at(38, entry(2, 2, "2"))]
    turn.events += [at(39, counted(3, 2, "2.1", safe=True)), at(40, entry(4, 2, "2.1"))]
    turn.events += [at(41, answered(5, 2, "k4 done"))]
    turn.outcomes = [at(42, outcome(STEPS, 2, 5))]
    return turn


def child(execution: str, place: str, agent: str, position: int) -> LoggedTurn:
    """The turn of a node, with an effect."""
    turn = LoggedTurn(child_id(execution, f"{place}.1"), agent)
    turn.claims = [at(position, claim(1))]
    turn.events = [at(position + 1, started(1, 1)), at(position + 2, answered(2, 1, "done"))]
    turn.outcomes = [at(position + 3, outcome(turn.turn, 1, 2))]
    return turn


def execution(turn: str, position: int, *events: tuple[int, AnyEvent], **fields: object) -> LoggedTurn:
    """An execution that ends 20 positions after its claim."""
    made = LoggedTurn(turn, "constellation")
    made.claims = [at(position, claim(1))]
    made.events = [at(position + 19, event) for event in events]
    made.outcomes = [at(position + 20, outcome(turn, 1, len(events), **fields))]
    return made


def executions() -> list[LoggedTurn]:
    """One that has completed with two turns; one that failed because the worker of its only turn was lost."""
    lost = ToolFailed(seq=1, call="1.1", server="chaos/ledger", tool="add", duration_ms=1.0, code="worker_lost")
    gone = child(FAILED, "1", "ledger", 131)
    gone.outcomes = [at(134, outcome(gone.turn, 1, 2, status="failed", code="worker_lost"))]
    return [
        execution(EXECUTION, 100, answered(1, 1, '{"outputs": {"total": 3}}')),
        *(child(EXECUTION, "1", "ledger", 101), child(EXECUTION, "2", "notes", 106)),
        *(execution(FAILED, 130, (1, lost), status="failed", code="node_failed"), gone),
    ]


def sound() -> Evidence:
    """A turn with an effect, a safe one with two attempts and two effects, a cancelled one, one of several steps; an
    execution of a program that has completed, and one that failed.
    """
    once = LoggedTurn(ONE, "ledger")
    once.claims = [at(1, claim(1))]
    once.events = [at(2, step(1, 1, 1)), at(3, started(2, 1)), at(4, step(3, 1, 2)), at(5, answered(4, 1, "k1 done"))]
    once.outcomes = [at(6, outcome(ONE, 1, 4))]
    twice = LoggedTurn(TWO, "notes")
    twice.claims = [at(11, claim(1)), at(14, claim(2))]
    twice.events = [at(12, step(1, 1, 1)), at(13, started(2, 1))]
    twice.events += [at(15, step(1, 2, 1)), at(16, started(2, 2)), at(17, answered(3, 2, "k2 done"))]
    twice.outcomes = [at(18, outcome(TWO, 2, 3))]
    stopped = LoggedTurn(STOPPED, "ledger")
    stopped.claims = [at(21, claim(1)), at(22, CancelRequested(reason="enough", at=NOON))]
    stopped.outcomes = [at(23, outcome(STOPPED, 1, 0, status="cancelled", code="cancelled"))]
    lines = ["k1 attempt 1 step 1", "ledger/append: started", "k1 attempt 1 step 2"]
    again = ["k1 attempt 1 step 1", "ledger/append: started", "k1 attempt 2 step 1", "ledger/append: started"]
    return Evidence(
        turns={turn.turn: turn for turn in (once, twice, stopped, steps(), *executions())},
        callers=[
            CallerView("k1", "ledger", "plain", "answered", Answer(ONE, None, "k1 done"), streams=[lines]),
            CallerView("k2", "notes", "legacy", "answered", Answer(TWO, None, "k2 done"), streams=[again]),
            CallerView("k3", "ledger", "cancelled", "closed", streams=[[]]),
        ],
        effects=[
            *(Effect("k1", ONE, 1), Effect("k2", TWO, 1), Effect("k2", TWO, 2), Effect("k4/1.1")),
            *(Effect("k5.1", child_id(EXECUTION, "1.1"), 1), Effect("k5.2", child_id(EXECUTION, "2.1"), 1)),
            Effect("k6.1", child_id(FAILED, "1.1"), 1),
        ],
        calls=[Effect("k4/1"), Effect("k4/2"), Effect("k4/2"), Effect("k4/2.1")],
        accepted=frozenset({ONE, TWO, STOPPED, STEPS}),
        by_key={"k1": [ONE], "k2": [TWO], "k3": [STOPPED], "k4": [STEPS], "k5": [EXECUTION], "k6": [FAILED]}
        | {f"k5.{place}": Node(place, "ledger").turns(EXECUTION) for place in "12"}
        | {"k6.1": Node("1", "ledger").turns(FAILED)},
        programs={"k5": PROGRAM, "k6": PROGRAM},
        children=frozenset({Child(child_id(EXECUTION, "1.1"), EXECUTION, "k5.1")}),
    )


def test_sound_evidence_breaks_no_rule() -> None:
    assert check(sound()) == []


def resumed_in_the_middle(it: Evidence) -> None:
    """The same, by two streams of which the second is the rest of the first."""
    first = it.callers[0].streams.pop()
    it.callers[0].streams, it.callers[0].last_event = [first[:1], first[1:]], "an id"


def test_a_resumed_stream_breaks_no_rule() -> None:
    evidence = sound()
    resumed_in_the_middle(evidence)
    assert check(evidence) == []


def outcome_missing(it: Evidence) -> None:
    it.turns[ONE].outcomes.clear()


def accepted_turn_missing(it: Evidence) -> None:
    it.accepted |= {"d" * 32}


def two_outcomes(it: Evidence) -> None:
    it.turns[ONE].outcomes.append(at(7, outcome(ONE, 1, 4)))


def event_missing(it: Evidence) -> None:
    del it.turns[ONE].events[2]


def event_rewritten(it: Evidence) -> None:
    it.turns[ONE].events.append(at(7, step(1, 1, 9)))


def effect_repeated(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k1", ONE, 1)]


def effect_repeated_downstream(it: Evidence) -> None:
    it.effects = [Effect("k1"), Effect("k1"), *it.effects[1:]]


def effect_without_tool_start(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k2", TWO, 3)]


def effect_without_turn(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k3")]


def effect_of_another_call(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k4/2.2")]


def unsafe_tool_started_twice(it: Evidence) -> None:
    it.turns[TWO].agent = "ledger"


def unsafe_call_started_again(it: Evidence) -> None:
    it.turns[STEPS].events[6] = at(39, counted(3, 2, "1.1"))


def unsafe_call_started_twice_in_an_attempt(it: Evidence) -> None:
    it.turns[STEPS].events[4] = at(37, counted(1, 2, "2.2"))
    it.turns[STEPS].events[5] = at(38, counted(2, 2, "2.2"))


def answered_call_made_again(it: Evidence) -> None:
    it.turns[STEPS].events[4] = at(37, called(1, 2, "1"))


def answered_tool_started_again(it: Evidence) -> None:
    it.turns[STEPS].events[6] = at(39, counted(3, 2, "1.1", safe=True))


def answered_call_counted_again(it: Evidence) -> None:
    it.calls = [*it.calls, Effect("k4/1")]


def call_counted_more_often_than_attempts_made_it(it: Evidence) -> None:
    it.calls = [*it.calls, Effect("k4/2")]


def call_counted_for_an_attempt_that_only_ended_the_turn(it: Evidence) -> None:
    it.turns[STEPS].claims[1] = at(36, claim(2).model_copy(update={"ends": True}))


def answered_effect_counted_again(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k4/1.1")]


def started_when_superseded(it: Evidence) -> None:
    it.turns[TWO].events[1] = at(19, started(2, 1))


def started_after_cancel(it: Evidence) -> None:
    it.turns[STOPPED].events.append(at(24, started(1, 1)))


def ended_by_superseded_attempt(it: Evidence) -> None:
    it.turns[TWO].outcomes = [at(18, outcome(TWO, 1, 2))]


def claimed_twice(it: Evidence) -> None:
    it.turns[TWO].claims[1] = at(14, claim(1))


def claimed_after_cancel(it: Evidence) -> None:
    it.turns[STOPPED].claims.append(at(25, claim(2)))


def ended_after_cancel(it: Evidence) -> None:
    it.turns[STOPPED].outcomes = [at(23, outcome(STOPPED, 1, 0))]


def progress_of_superseded_attempt(it: Evidence) -> None:
    it.callers[1].streams[0].append("k1 attempt 1 step 2")


def progress_sent_twice(it: Evidence) -> None:
    it.callers[0].streams[0].append("k1 attempt 1 step 2")


def progress_missing(it: Evidence) -> None:
    del it.callers[0].streams[0][1]


def progress_missing_between_two_streams(it: Evidence) -> None:
    resumed_in_the_middle(it)
    del it.callers[0].streams[1][0]


def progress_sent_on_two_streams(it: Evidence) -> None:
    resumed_in_the_middle(it)
    it.callers[0].streams[1].insert(0, it.callers[0].streams[0][-1])


def answered_with_another_text(it: Evidence) -> None:
    it.callers[0].answer = Answer(ONE, None, "k1 redone")


def answered_with_another_code(it: Evidence) -> None:
    it.callers[0].answer = Answer(ONE, "worker_lost", "lost")


def answered_for_an_unknown_turn(it: Evidence) -> None:
    it.callers[0].answer = Answer("e" * 32, None, "k1 done")


def refused_and_executed(it: Evidence) -> None:
    it.callers[0].ended = "refused"


def caller_without_answer(it: Evidence) -> None:
    it.callers[0].ended = "unheard"


def resumable_caller_without_answer(it: Evidence) -> None:
    it.callers[0].ended, it.callers[0].goes_on = "broken", True


def message_left_in_queue(it: Evidence) -> None:
    it.left = ["1 messages are left in the queue"]


def node_had_its_effect_twice(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k5.1", child_id(EXECUTION, "1.1"), 1)]


def effect_of_an_unknown_node(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k5.9")]


def id_of_another_place(it: Evidence) -> None:
    it.children = frozenset({Child(child_id(EXECUTION, "2.1"), EXECUTION, "k5.1")})


def id_of_a_try_too_many(it: Evidence) -> None:
    it.children = frozenset({Child(child_id(EXECUTION, "1.2"), EXECUTION, "k5.1")})


def node_without_effect(it: Evidence) -> None:
    it.effects = [effect for effect in it.effects if effect.key != "k5.2"]


def branch_not_taken_had_an_effect(it: Evidence) -> None:
    it.effects = [*it.effects, Effect("k6.3")]


def branch_not_taken_was_requested(it: Evidence) -> None:
    made = child(EXECUTION, "3", "ledger", 111)
    it.turns[made.turn] = made


def child_ended_after_its_execution(it: Evidence) -> None:
    it.turns[child_id(EXECUTION, "1.1")].outcomes = [at(121, outcome(child_id(EXECUTION, "1.1"), 1, 2))]


def child_of_a_failed_execution_runs(it: Evidence) -> None:
    it.turns[child_id(FAILED, "1.1")].outcomes.clear()


def child_claimed_after_its_execution(it: Evidence) -> None:
    it.turns[child_id(EXECUTION, "2.1")].claims.append(at(122, claim(2)))


def test_a_turn_that_is_claimed_again_after_its_end_breaks_no_rule() -> None:
    evidence = sound()
    child_claimed_after_its_execution(evidence)
    assert check(evidence) == []


def child_executed_after_its_execution(it: Evidence) -> None:
    child_claimed_after_its_execution(it)
    it.turns[child_id(EXECUTION, "2.1")].events.append(at(123, started(1, 2)))


def another_value(it: Evidence) -> None:
    it.turns[EXECUTION].events = [at(119, answered(1, 1, '{"outputs": {"total": 4}}'))]


def failed_without_a_lost_worker(it: Evidence) -> None:
    it.turns[FAILED].events.clear()


def failed_itself(it: Evidence) -> None:
    it.turns[FAILED].outcomes = [at(150, outcome(FAILED, 1, 1, status="failed", code="internal"))]


DOCTORED: list[tuple[Callable[[Evidence], None], str]] = [
    (outcome_missing, "one_outcome"),
    (accepted_turn_missing, "one_outcome"),
    (two_outcomes, "one_outcome"),
    (event_missing, "contiguous"),
    (event_rewritten, "contiguous"),
    (effect_repeated, "effects_once"),
    (effect_repeated_downstream, "effects_once"),
    (effect_without_tool_start, "effects_once"),
    (effect_without_turn, "effects_once"),
    (effect_of_another_call, "effects_once"),
    (unsafe_tool_started_twice, "unsafe_starts_once"),
    (unsafe_call_started_again, "unsafe_starts_once"),
    (unsafe_call_started_twice_in_an_attempt, "unsafe_starts_once"),
    (answered_call_made_again, "answered_is_taken_over"),
    (answered_tool_started_again, "answered_is_taken_over"),
    (answered_call_counted_again, "answered_is_taken_over"),
    (call_counted_more_often_than_attempts_made_it, "answered_is_taken_over"),
    (call_counted_for_an_attempt_that_only_ended_the_turn, "answered_is_taken_over"),
    (answered_effect_counted_again, "answered_is_taken_over"),
    (started_when_superseded, "claims_in_order"),
    (started_after_cancel, "claims_in_order"),
    (ended_by_superseded_attempt, "claims_in_order"),
    (claimed_twice, "claims_in_order"),
    (claimed_after_cancel, "cancel_sticks"),
    (ended_after_cancel, "cancel_sticks"),
    (progress_of_superseded_attempt, "superseded_is_silent"),
    (progress_sent_twice, "superseded_is_silent"),
    (progress_missing, "nothing_is_missed"),
    (progress_missing_between_two_streams, "nothing_is_missed"),
    (progress_sent_on_two_streams, "superseded_is_silent"),
    (answered_with_another_text, "answers_agree"),
    (answered_with_another_code, "answers_agree"),
    (answered_for_an_unknown_turn, "answers_agree"),
    (refused_and_executed, "answers_agree"),
    (caller_without_answer, "everybody_is_answered"),
    (resumable_caller_without_answer, "everybody_is_answered"),
    (message_left_in_queue, "queue_is_empty"),
    (node_had_its_effect_twice, "effects_once"),
    (effect_of_an_unknown_node, "effects_once"),
    (id_of_another_place, "ids_follow"),
    (id_of_a_try_too_many, "ids_follow"),
    (node_without_effect, "nodes_run_as_written"),
    (branch_not_taken_had_an_effect, "nodes_run_as_written"),
    (branch_not_taken_was_requested, "nodes_run_as_written"),
    (child_ended_after_its_execution, "children_end_first"),
    (child_of_a_failed_execution_runs, "children_end_first"),
    (child_executed_after_its_execution, "children_end_first"),
    (another_value, "values_are_right"),
    (failed_without_a_lost_worker, "only_lost_nodes_fail"),
    (failed_itself, "only_lost_nodes_fail"),
]


@pytest.mark.parametrize(("doctor", "rule"), DOCTORED, ids=lambda it: getattr(it, "__name__", it))
def test_doctored_evidence_breaks_the_rule(doctor: Callable[[Evidence], None], rule: str) -> None:
    evidence = sound()
    doctor(evidence)
    assert rule in {violation.rule for violation in check(evidence)}


def answer_stored_after_the_next_claim(it: Evidence) -> None:
    it.turns[STEPS].events[3] = at(36, entry(4, 1, "1.1"))
    it.turns[STEPS].claims[1] = at(35, claim(2))


def event_before_the_answer_lost(it: Evidence) -> None:
    it.turns[STEPS].events[2] = at(34, counted(5, 1, "1.1"))


@pytest.mark.parametrize("doctor", [answer_stored_after_the_next_claim, event_before_the_answer_lost])
def test_a_call_may_be_repeated_if_its_answer_was_not_stored_before_the_claim(
    doctor: Callable[[Evidence], None],
) -> None:
    evidence = sound()
    doctor(evidence)
    evidence.turns[STEPS].events[6] = at(39, counted(3, 2, "1.1", safe=True))
    assert "answered_is_taken_over" not in {violation.rule for violation in check(evidence)}


def test_every_rule_has_evidence_that_breaks_it() -> None:
    assert {rule for _, rule in DOCTORED} == {rule.__name__ for rule in RULES}


def test_a_violation_is_in_the_report() -> None:
    evidence = replace(sound(), left=["1 messages are left in the queue"])
    text = markdown(facts(Result(Options(7), 1.0, evidence, (), {}, check(evidence))))
    assert "Violations: 1" in text
    assert "queue_is_empty: 1 messages are left in the queue" in text
