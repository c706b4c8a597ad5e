"""What a call inside a program answered, and how the journal has it."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pallas_contracts.turns import (
    TURN_ERRORS,
    Fault,
    InputRequired,
    JsonObject,
    Result,
    TurnOutcome,
    effect_unknown,
    turn_error,
)
from pallas_cst.types import Type
from pallas_cst.values import size_of
from pallas_cst.work import LARGE
from pallas_turns.model import Refusal, TurnEnd
from pipelines.modules.module import Module

_LONGEST_MESSAGE = 2000

_EXECUTED = frozenset({"invalid_answer", "result_too_large"})
"""Codes of calls that were executed, whose answers cannot be used."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a module answered, as JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call has no answer. `unknown`: it may have taken effect, so only what is repeatable is called again."""

    code: str
    message: str
    unknown: bool = False


def answer_of(module: Module, end: TurnEnd) -> Answer | Failure:
    """The answer in the end of a child turn."""
    outcome, answer = end.outcome, end.answer
    match answer:
        case Result(is_error=True):
            return Failure("tool_error", _cut(_text(answer.content)) or "the tool answered with an error")
        case Result() if module.tool.output_schema is None:
            return Answer(_text(answer.content))
        case Result(structured=structured):
            return _structured(module, structured)
        case InputRequired():
            return Failure("input_required", "the tool asks its caller for input, which a pipeline cannot give")
        case Fault(message=message):
            return Failure(outcome.code or "internal", _cut(message), _may_have_effect(outcome))
        case None:
            code = outcome.code or "internal"
            return Failure(code, TURN_ERRORS[turn_error(code)], _may_have_effect(outcome))


def _may_have_effect(outcome: TurnOutcome) -> bool:
    executed = outcome.status == "completed" or outcome.code in _EXECUTED
    return executed or effect_unknown(outcome.code, retryable=outcome.retryable)


def _structured(module: Module, structured: Any) -> Answer | Failure:
    if not module.wrapped:
        return Answer(structured)
    if isinstance(structured, dict) and "result" in structured:
        return Answer(structured["result"])
    return Failure("invalid_answer", "the answer has no result", unknown=True)


def refused(refusal: Refusal) -> Failure:
    """A call that became no turn, or whose turn had been cancelled."""
    return Failure(refusal.code, _cut(refusal.message), effect_unknown(refusal.code, retryable=False))


def written(answer: Answer | Failure) -> str:
    """The entry of the journal."""
    match answer:
        case Answer(value):
            return json.dumps({"value": value}, ensure_ascii=False, separators=(",", ":"))
        case Failure(code, message, unknown):
            return json.dumps({"failure": {"code": code, "message": message, "unknown": unknown}})


def read(entry: str) -> Answer | Failure:
    """The answer in an entry of the journal."""
    found: JsonObject = json.loads(entry)
    return Answer(found["value"]) if "value" in found else Failure(**found["failure"])


def _text(content: Iterable[JsonObject]) -> str:
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} …"


_LARGE_TYPE = 500
"""Parts of types with which work may take long, whatever the value is."""

MOST_BYTES = 64 * 2**20
"""Bytes of the outputs of an execution, of the arguments of a call, and of all results of a batch (estimated)."""


async def worked_on[R](value: Any, function: Callable[[], R], *kinds: Type) -> R:
    """The result of work on a value with types; with a large value or type in a thread."""
    small = size_of(value, LARGE) < LARGE and sum(kind.size for kind in kinds) < _LARGE_TYPE
    return function() if small else await asyncio.to_thread(function)
