"""What must hold after a storm, rule by rule, from the evidence only, without any connection.

A rule yields a sentence for everything that breaks it. `check` runs them all.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.chaos.caller_rules import answers_agree, everybody_is_answered, nothing_is_missed, superseded_is_silent
from tests.chaos.effects import Effect
from tests.chaos.evidence import Evidence, LoggedTurn
from tests.chaos.program_rules import (
    children_end_first,
    ids_follow,
    nodes_run_as_written,
    only_lost_nodes_fail,
    values_are_right,
)

from pallas_contracts.turns import Answered, CancelRequested, Claimed, ModelCalled, ToolStarted

type Rule = Callable[[Evidence], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that did not hold, and where."""

    rule: str
    what: str


def one_outcome(evidence: Evidence) -> Iterator[str]:
    """Every accepted turn has exactly one outcome, and no other has more."""
    claimed = {turn.turn for turn in evidence.turns.values() if turn.attempts}
    for turn in sorted(evidence.accepted | claimed | set(evidence.turns)):
        found = len(evidence.turns[turn].outcomes) if turn in evidence.turns else 0
        if found > 1 or (found == 0 and turn in evidence.accepted | claimed):
            yield f"turn {turn} has {found} outcomes"


def contiguous(evidence: Evidence) -> Iterator[str]:
    """The concluding attempt's events are numbered from 1 to the count in its outcome, each number once."""
    for turn in evidence.turns.values():
        seen: dict[tuple[int, int], object] = {}
        for attempt, event in (at.body for at in turn.events):
            if seen.setdefault((attempt, event.seq), event) != event:
                yield f"turn {turn.turn}: event {event.seq} of attempt {attempt} says two things"
        for outcome in (at.body for at in turn.outcomes if at.body.status != "cancelled"):
            numbers = [event.seq for event in turn.of_attempt(outcome.attempt)]
            if numbers != list(range(1, outcome.events + 1)):
                yield f"turn {turn.turn}: attempt {outcome.attempt} has events {numbers} of {outcome.events}"


def effects_once(evidence: Evidence) -> Iterator[str]:
    """An unsafe effect happens once; any effect was in the log, by the attempt that had it, before it happened."""
    for effect, count in Counter(Effect(effect.key) for effect in evidence.effects).items():
        turns = _turns_of(effect, evidence)
        if count > 1 and not any(turn.agent in evidence.safe for turn in turns):
            yield f"the effect of {effect.key} happened {count} times"
        started = {started.call for turn in turns for _, started in _starts(turn)}
        if not (effect.call in started if effect.call else started):
            yield f"the effect of {effect.key} is in no log"
    for (turn, attempt), count in Counter((it.turn, it.attempt) for it in evidence.effects if it.turn).items():
        if count > 1:
            yield f"attempt {attempt} of turn {turn} had its effect {count} times"
        if turn in evidence.turns and not any(number == attempt for number, _ in _starts(evidence.turns[turn])):
            yield f"attempt {attempt} of turn {turn} had an effect that it did not announce"


def unsafe_starts_once(evidence: Evidence) -> Iterator[str]:
    """A call of a tool that may not be called again is started once in all attempts of a turn."""
    for turn in evidence.turns.values():
        starts = {(started.call, attempt, started.seq) for attempt, started in _starts(turn) if not started.safe}
        for call, count in Counter(call for call, _, _ in starts).items():
            if count > 1 and turn.agent not in evidence.safe:
                yield f"turn {turn.turn}: call {call} was started {count} times"


def answered_is_taken_over(evidence: Evidence) -> Iterator[str]:
    """A call whose answer is stored is not made by a later attempt: by the log, and by those who were called.

    An attempt that does not have the answer makes the call once. An answer counts if it was stored before the next
    claim, with all events of its attempt before it.
    """
    for turn in evidence.turns.values():
        for attempt, event in (at.body for at in turn.events):
            if isinstance(event, ModelCalled | ToolStarted | Answered) and event.call in turn.answered_before(attempt):
                yield f"turn {turn.turn}: attempt {attempt} has {event.type} of call {event.call}, which was answered"
    made = (*evidence.calls, *evidence.effects)
    for asked, count in Counter(Effect(it.key) for it in made if it.call).items():
        turns = _turns_of(asked, evidence)
        without = [it for turn in turns for it in turn.executed if asked.call not in turn.answered_before(it)]
        if count > len(without):
            yield f"{asked.key} was made {count} times, by {len(without)} attempts that did not have its answer"


def claims_in_order(evidence: Evidence) -> Iterator[str]:
    """Attempts are numbered as they are claimed; only the holder of the last claim starts a tool or ends the turn."""
    for turn in evidence.turns.values():
        if turn.attempts != list(range(1, len(turn.attempts) + 1)):
            yield f"turn {turn.turn}: claimed as attempts {turn.attempts}"
        for at in turn.events:
            attempt, event = at.body
            if isinstance(event, ToolStarted) and event.leaf and _holder(turn, at.position) != attempt:
                yield f"turn {turn.turn}: attempt {attempt} started a tool without having the turn"
        for at in turn.outcomes:
            holder = _holder(turn, at.position)
            if holder != (None if at.body.status == "cancelled" else at.body.attempt):
                yield f"turn {turn.turn}: attempt {at.body.attempt} ended it as {at.body.status} without having it"


def cancel_sticks(evidence: Evidence) -> Iterator[str]:
    """After a cancel there is no claim, and the only outcome is the cancel."""
    for turn in evidence.turns.values():
        cancelled = next((at.position for at in turn.claims if isinstance(at.body, CancelRequested)), None)
        if cancelled is None:
            continue
        if any(at.position > cancelled for at in turn.claims):
            yield f"turn {turn.turn} was claimed after it had been cancelled"
        for at in turn.outcomes:
            if at.position > cancelled and at.body.status != "cancelled":
                yield f"turn {turn.turn} was cancelled and ended as {at.body.status}"


def queue_is_empty(evidence: Evidence) -> Iterator[str]:
    """The queue is empty, and no worker holds a delivery."""
    yield from evidence.left


def _turns_of(effect: Effect, evidence: Evidence) -> list[LoggedTurn]:
    return [evidence.turns[turn] for turn in evidence.by_key.get(effect.caller, ()) if turn in evidence.turns]


def _starts(turn: LoggedTurn) -> list[tuple[int, ToolStarted]]:
    found = ((attempt, event) for attempt, event in (at.body for at in turn.events))
    return [(attempt, event) for attempt, event in found if isinstance(event, ToolStarted) and event.leaf]


def _holder(turn: LoggedTurn, position: int) -> int | None:
    """The attempt that has the turn at a position of the log; None for none, as after a cancel."""
    last = max((at for at in turn.claims if at.position < position), key=lambda at: at.position, default=None)
    return last.body.attempt if last is not None and isinstance(last.body, Claimed) else None


RULES: tuple[Rule, ...] = (
    one_outcome,
    contiguous,
    effects_once,
    unsafe_starts_once,
    answered_is_taken_over,
    claims_in_order,
    cancel_sticks,
    superseded_is_silent,
    nothing_is_missed,
    answers_agree,
    everybody_is_answered,
    queue_is_empty,
    ids_follow,
    nodes_run_as_written,
    children_end_first,
    values_are_right,
    only_lost_nodes_fail,
)


def check(evidence: Evidence) -> list[Violation]:
    """All violations of all rules."""
    return [Violation(rule.__name__, what) for rule in RULES for what in rule(evidence)]
