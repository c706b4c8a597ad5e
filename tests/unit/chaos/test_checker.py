"""Every rule of the checker can fail: sound evidence is doctored in one place, and the rule finds it."""

import operator
from collections.abc import Callable, Sequence
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

type Doctor = Callable[[Evidence], object]

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


def given(**fields: object) -> Doctor:
    """Replaces fields of the evidence."""
    return lambda it: [setattr(it, name, value) for name, value in fields.items()]


def more(**fields: Sequence[object]) -> Doctor:
    """Adds to fields of the evidence."""
    return lambda it: [setattr(it, name, [*getattr(it, name), *added]) for name, added in fields.items()]


def caller(**fields: object) -> Doctor:
    """Replaces what the first caller saw."""
    return lambda it: [setattr(it.callers[0], name, value) for name, value in fields.items()]


def event(turn: str, place: int, position: int, made: tuple[int, AnyEvent]) -> Doctor:
    """Replaces an event of a turn."""
    return lambda it: operator.setitem(it.turns[turn].events, place, at(position, made))


def claims(turn: str, *made: At[Claimed | CancelRequested]) -> Doctor:
    """Replaces all claims of a turn but the first."""
    return lambda it: operator.setitem(it.turns[turn].claims, slice(1, None), made)


def ends(position: int, turn: str, attempt: int, events: int, **fields: object) -> Doctor:
    """Replaces the outcome of a turn."""
    return lambda it: setattr(it.turns[turn], "outcomes", [at(position, outcome(turn, attempt, events, **fields))])


def both(*doctors: Doctor) -> Doctor:
    return lambda it: [doctor(it) for doctor in doctors]


LAST = child_id(EXECUTION, "2.1")


def claimed_late(it: Evidence) -> None:
    it.turns[LAST].claims.append(at(122, claim(2)))


def test_a_turn_that_is_claimed_again_after_its_end_breaks_no_rule() -> None:
    evidence = sound()
    claimed_late(evidence)
    assert check(evidence) == []


DOCTORED: dict[str, dict[str, Doctor]] = {
    "one_outcome": {
        "none": lambda it: it.turns[ONE].outcomes.clear(),
        "none of an accepted turn": given(accepted=frozenset({ONE, TWO, STOPPED, STEPS, "d" * 32})),
        "two": lambda it: it.turns[ONE].outcomes.append(at(7, outcome(ONE, 1, 4))),
    },
    "contiguous": {
        "an event is missing": lambda it: it.turns[ONE].events.pop(2),
        "an event was rewritten": lambda it: it.turns[ONE].events.append(at(7, step(1, 1, 9))),
    },
    "effects_once": {
        "repeated": more(effects=[Effect("k1", ONE, 1)]),
        "repeated downstream": lambda it: given(effects=[Effect("k1"), Effect("k1"), *it.effects[1:]])(it),
        "without a start of a tool": more(effects=[Effect("k2", TWO, 3)]),
        "without a turn": more(effects=[Effect("k3")]),
        "of another call": more(effects=[Effect("k4/2.2")]),
        "a node had its effect twice": more(effects=[Effect("k5.1", child_id(EXECUTION, "1.1"), 1)]),
        "of an unknown node": more(effects=[Effect("k5.9")]),
    },
    "unsafe_starts_once": {
        "a tool in two attempts": lambda it: setattr(it.turns[TWO], "agent", "ledger"),
        "a call in two attempts": event(STEPS, 6, 39, counted(3, 2, "1.1")),
        "a call twice in one attempt": both(
            event(STEPS, 4, 37, counted(1, 2, "2.2")), event(STEPS, 5, 38, counted(2, 2, "2.2"))
        ),
    },
    "answered_is_taken_over": {
        "an answered call was made again": event(STEPS, 4, 37, called(1, 2, "1")),
        "an answered tool was started again": event(STEPS, 6, 39, counted(3, 2, "1.1", safe=True)),
        "an answered call was counted again": more(calls=[Effect("k4/1")]),
        "counted more often than attempts made it": more(calls=[Effect("k4/2")]),
        "counted for an attempt that only ended the turn": claims(
            STEPS, at(36, claim(2).model_copy(update={"ends": True}))
        ),
        "an answered effect was counted again": more(effects=[Effect("k4/1.1")]),
    },
    "claims_in_order": {
        "started when superseded": event(TWO, 1, 19, started(2, 1)),
        "started after the cancel": lambda it: it.turns[STOPPED].events.append(at(24, started(1, 1))),
        "ended by a superseded attempt": ends(18, TWO, 1, 2),
        "claimed twice": claims(TWO, at(14, claim(1))),
    },
    "cancel_sticks": {
        "claimed after it": lambda it: it.turns[STOPPED].claims.append(at(25, claim(2))),
        "completed after it": ends(23, STOPPED, 1, 0),
    },
    "superseded_is_silent": {
        "progress of a superseded attempt": lambda it: it.callers[1].streams[0].append("k1 attempt 1 step 2"),
        "progress was sent twice": lambda it: it.callers[0].streams[0].append("k1 attempt 1 step 2"),
        "progress was sent on two streams": both(
            resumed_in_the_middle, lambda it: it.callers[0].streams[1].insert(0, it.callers[0].streams[0][-1])
        ),
    },
    "nothing_is_missed": {
        "progress is missing": lambda it: it.callers[0].streams[0].pop(1),
        "progress between two streams": both(resumed_in_the_middle, lambda it: it.callers[0].streams[1].pop(0)),
    },
    "answers_agree": {
        "another text": caller(answer=Answer(ONE, None, "k1 redone")),
        "another code": caller(answer=Answer(ONE, "worker_lost", "lost")),
        "an unknown turn": caller(answer=Answer("e" * 32, None, "k1 done")),
        "refused and executed": caller(ended="refused"),
    },
    "everybody_is_answered": {
        "a caller heard nothing": caller(ended="unheard"),
        "a caller that could go on heard nothing": caller(ended="broken", goes_on=True),
    },
    "queue_is_empty": {"a message is left": given(left=["1 messages are left in the queue"])},
    "ids_follow": {
        "of another place": given(children=frozenset({Child(LAST, EXECUTION, "k5.1")})),
        "of a try too many": given(children=frozenset({Child(child_id(EXECUTION, "1.2"), EXECUTION, "k5.1")})),
    },
    "nodes_run_as_written": {
        "a node without effect": lambda it: given(effects=[each for each in it.effects if each.key != "k5.2"])(it),
        "a branch that is not taken had an effect": more(effects=[Effect("k6.3")]),
        "a branch that is not taken was requested": lambda it: it.turns.update(
            {child_id(EXECUTION, "3.1"): child(EXECUTION, "3", "ledger", 111)}
        ),
    },
    "children_end_first": {
        "one ended after its execution": ends(121, child_id(EXECUTION, "1.1"), 1, 2),
        "one of a failed execution runs": lambda it: it.turns[child_id(FAILED, "1.1")].outcomes.clear(),
        "one was executed after its execution": both(
            claimed_late, lambda it: it.turns[LAST].events.append(at(123, started(1, 2)))
        ),
    },
    "values_are_right": {"another value": event(EXECUTION, 0, 119, answered(1, 1, '{"outputs": {"total": 4}}'))},
    "only_lost_nodes_fail": {
        "no worker was lost": lambda it: it.turns[FAILED].events.clear(),
        "it failed itself": ends(150, FAILED, 1, 1, status="failed", code="internal"),
    },
}
"""What breaks each rule."""


@pytest.mark.parametrize(("rule", "what"), [(rule, what) for rule, cases in DOCTORED.items() for what in cases])
def test_doctored_evidence_breaks_the_rule(rule: str, what: str) -> None:
    evidence = sound()
    DOCTORED[rule][what](evidence)
    assert rule in {violation.rule for violation in check(evidence)}


@pytest.mark.parametrize(
    "doctor",
    [
        both(event(STEPS, 3, 36, entry(4, 1, "1.1")), claims(STEPS, at(35, claim(2)))),
        event(STEPS, 2, 34, counted(5, 1, "1.1")),
    ],
    ids=["its answer was stored after the next claim", "an event before its answer was lost"],
)
def test_a_call_may_be_repeated_if_its_answer_was_not_stored_before_the_claim(doctor: Doctor) -> None:
    evidence = sound()
    doctor(evidence)
    evidence.turns[STEPS].events[6] = at(39, counted(3, 2, "1.1", safe=True))
    assert "answered_is_taken_over" not in {violation.rule for violation in check(evidence)}


def test_every_rule_has_evidence_that_breaks_it() -> None:
    assert set(DOCTORED) == {rule.__name__ for rule in RULES}


def test_a_violation_is_in_the_report() -> None:
    evidence = replace(sound(), left=["1 messages are left in the queue"])
    text = markdown(facts(Result(Options(7), 1.0, evidence, (), {}, check(evidence))))
    assert "Violations: 1" in text
    assert "queue_is_empty: 1 messages are left in the queue" in text
