"""What must hold between a caller and the log: the same answer, and progress of the attempt that gave it."""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

from tests.chaos.evidence import CallerView, Evidence, LoggedTurn

from pallas_contracts.turns import (
    AnyEvent,
    Progress,
    Result,
    Step,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
    TurnOutcome,
)

_RECONNECTS = timedelta(seconds=1)
_NUMBERED = re.compile(r"attempt (\d+) step (\d+)$")


def superseded_is_silent(evidence: Evidence) -> Iterator[str]:
    """On a stream, resumed or not, attempts never come back and steps of an attempt only rise."""
    for caller in evidence.callers:
        for lines in caller.streams if caller.whole is None else (caller.whole,):
            received = [(int(found[1]), int(found[2])) for line in lines if (found := _NUMBERED.search(line))]
            if received != sorted(set(received)):
                yield f"{caller.key} ({caller.kind}) received {received}"


def nothing_is_missed(evidence: Evidence) -> Iterator[str]:
    """A caller that has followed a whole turn gets all progress of the concluding attempt, and nothing after it.

    What was lost with the broker is put into the log again before the outcome, too late to be received in order: a call
    that has seen the broker go may miss such lines.
    """
    for caller in evidence.callers:
        whole, logged = caller.whole, _turn_of(caller, evidence)
        if caller.ended != "answered" or whole is None or logged is None:
            continue
        for outcome in (at.body for at in logged.outcomes if at.body.status != "cancelled"):
            wanted = [line for event in logged.of_attempt(outcome.attempt) if (line := _line(event)) is not None]
            received = [line for line in whole if " queued: " not in line]
            missed = _missing(wanted, received)
            if missed and not _has_seen_the_broker_go(logged, evidence):
                yield f"{caller.key} ({caller.kind}) did not receive {missed} at the end of {received}"


def _missing(wanted: Sequence[str], received: Sequence[str]) -> list[str]:
    """The wanted lines that are missing, in this order, at the end of the received ones."""
    missed: list[str] = []
    end = len(received)
    for line in reversed(wanted):
        if end and received[end - 1] == line:
            end -= 1
        else:
            missed.insert(0, line)
    return missed


def _has_seen_the_broker_go(logged: LoggedTurn, evidence: Evidence) -> bool:
    return any(
        logged.claims[0].time <= back + _RECONNECTS and gone <= at.time
        for gone, back in evidence.broker_gone
        for at in logged.outcomes
    )


def answers_agree(evidence: Evidence) -> Iterator[str]:
    """Every answered caller has got the outcome that the log holds, with its text; a refused call was not executed."""
    for caller in evidence.callers:
        answer = caller.answer
        if answer is None or answer.turn is None:
            continue
        logged = evidence.turns.get(answer.turn)
        outcomes = [at.body for at in logged.outcomes] if logged is not None else []
        if caller.ended == "refused":
            if any(outcome.status != "cancelled" for outcome in outcomes):
                yield f"{caller.key} ({caller.kind}) was refused, and turn {answer.turn} was executed"
        elif not outcomes:
            yield f"{caller.key} ({caller.kind}) was answered, and turn {answer.turn} has no outcome"
        else:
            assert logged is not None
            yield from _disagreement(caller, outcomes[0], logged.of_attempt(outcomes[0].attempt))


def everybody_is_answered(evidence: Evidence) -> Iterator[str]:
    """No caller waits for ever, and one that can follow a turn elsewhere gets its answer."""
    for caller in evidence.callers:
        if caller.ended == "unheard" or (caller.ended == "broken" and caller.goes_on):
            yield f"{caller.key} ({caller.kind}) never got an answer"


def _disagreement(caller: CallerView, outcome: TurnOutcome, events: Sequence[AnyEvent]) -> Iterator[str]:
    assert caller.answer is not None
    if caller.answer.code != outcome.code:
        yield f"{caller.key} ({caller.kind}) received {caller.answer.code}, the log has {outcome.code}"
    elif outcome.status == "completed":
        texts = ["\n".join(it["text"] for it in event.content) for event in events if isinstance(event, Result)]
        if texts != [caller.answer.text]:
            yield f"{caller.key} ({caller.kind}) received {caller.answer.text!r}, the log has {texts}"


def _turn_of(caller: CallerView, evidence: Evidence) -> LoggedTurn | None:
    turn = caller.answer.turn if caller.answer is not None else None
    return evidence.turns.get(turn) if turn is not None else None


def _line(event: AnyEvent) -> str | None:
    """The progress message of an event by the interface contract, or None if no caller gets it."""
    match event:
        case ToolStarted(server=server, tool=tool):
            return f"{server}/{tool}: started"
        case ToolCompleted(server=server, tool=tool):
            return f"{server}/{tool}: completed"
        case ToolFailed(server=server, tool=tool):
            return f"{server}/{tool}: failed"
        case Step(agent=agent, n=n, kind=kind):
            return f"{agent} step {n} ({kind})"
        case ToolProgress(server=server, tool=tool, message=str(message)):
            return f"{server}/{tool}: {message}"
        case Progress(message=message):
            return message
        case _:
            return None
