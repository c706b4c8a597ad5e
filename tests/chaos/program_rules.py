"""What must hold between an execution of a program, the turns that it has made, and their effects."""

import json
from collections import Counter
from collections.abc import Iterator

from tests.chaos.evidence import Evidence, LoggedTurn

from pallas_contracts.turns import CancelRequested, Claimed, Result, ToolFailed

_LOST = frozenset({"worker_lost", "agent_unreachable"})
"""Why a node may fail: whether it took effect is not known, or its data agent was away for long."""


def ids_follow(evidence: Evidence) -> Iterator[str]:
    """The id of each turn that an execution has made follows from the execution and the place of the call."""
    for child in evidence.children:
        key, _, place = child.key.partition(".")
        program = evidence.programs.get(key)
        nodes = [node for node in program.nodes if node.place == place] if program is not None else []
        if not any(child.turn in node.turns(child.parent) for node in nodes):
            yield f"turn {child.turn} of {child.key} does not follow from {child.parent}"


def nodes_run_as_written(evidence: Evidence) -> Iterator[str]:
    """A node whose branch is not taken never runs; in a completed execution, each other one that is needed does.

    That none has its effect twice is another rule (`effects_once`).
    """
    counted = Counter(it.key for it in (*evidence.effects, *evidence.calls))
    for key, program, execution in evidence.executions:
        completed = any(at.body.status == "completed" for at in execution.outcomes)
        for node in program.nodes:
            count, made = counted[f"{key}.{node.place}"], evidence.turns_of(node, execution)
            if not node.taken and (count or made):
                yield f"{key}.{node.place} is in a branch that is not taken, and ran"
            if completed and node.taken and node.needed and not count:
                yield f"{key}.{node.place} never had its effect, and execution {execution.turn} completed"


def children_end_first(evidence: Evidence) -> Iterator[str]:
    """Before an execution ends, each of its turns has ended or is cancelled; none is executed after that.

    One that is claimed again at the moment in which it ends is not executed.
    """
    for key, program, execution in evidence.executions:
        for end in (at.position for at in execution.outcomes):
            for node in program.nodes:
                for child in evidence.turns_of(node, execution):
                    if not _over_before(child, end):
                        yield f"{key}.{node.place}: turn {child.turn} was running when its execution ended"
                    late = [
                        at.body.attempt for at in child.claims if isinstance(at.body, Claimed) and at.position > end
                    ]
                    if any(map(child.of_attempt, late)):
                        yield f"{key}.{node.place}: turn {child.turn} was executed when its execution had ended"


def _over_before(turn: LoggedTurn, position: int) -> bool:
    cancels = [at.position for at in turn.claims if isinstance(at.body, CancelRequested)]
    return any(it < position for it in (*cancels, *(at.position for at in turn.outcomes)))


def values_are_right(evidence: Evidence) -> Iterator[str]:
    """A completed execution has answered what its program computes."""
    for key, program, execution in evidence.executions:
        for outcome in (at.body for at in execution.outcomes if at.body.status == "completed"):
            events = execution.of_attempt(outcome.attempt)
            answers = [json.loads(_text(event)).get("outputs") for event in events if isinstance(event, Result)]
            if answers != [program.outputs]:
                yield f"{key} computed {answers} and not {program.outputs}"


def _text(answer: Result) -> str:
    return "".join(block["text"] for block in answer.content)


def only_lost_nodes_fail(evidence: Evidence) -> Iterator[str]:
    """An execution fails only because a node failed whose worker was lost or whose data agent was away."""
    for key, _, execution in evidence.executions:
        for outcome in (at.body for at in execution.outcomes if at.body.status == "failed"):
            codes = {event.code for _, event in (at.body for at in execution.events) if isinstance(event, ToolFailed)}
            if outcome.code != "node_failed" or not codes & _LOST:
                yield f"{key} failed with {outcome.code}; its calls failed with {sorted(map(str, codes))}"
