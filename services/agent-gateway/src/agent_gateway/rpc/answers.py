"""What a caller of `agent.execute` gets: a result or an error, with `meta` beside it (sections 3.1 and 6)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agent_gateway.mcp.request import MAX_LENGTH
from pallas_contracts.agents import JsonObject, ToolDefinition
from pallas_contracts.bounds import Json
from pallas_contracts.data_agents import RPC_ERROR, WRAPPED
from pallas_contracts.turns import TURN_ERRORS, Fault, InputRequired, Result, TurnOutcome
from pallas_jsonrpc.messages import (
    AGENT_ERROR,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNREACHABLE,
    RpcError,
)
from pallas_jsonrpc.serving import Answer
from pallas_turns.model import Refusal, TurnEnd

EXECUTE = "agent.execute"

LONGEST_ID = 256

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _moment(text: str) -> str:
    if _RFC_3339.fullmatch(text) is None:
        raise ValueError("must be a time as in RFC 3339, such as 2025-05-28T15:00:00Z")
    datetime.fromisoformat(text.upper())
    return text


type _Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]


class _Params(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Meta(_Params):
    """`meta` of a call. Unknown fields are ignored.

    Pallas adds `idempotency_key`, `cancel` (of the turn of that key) and `timeout` (seconds).
    """

    task_id: _Id
    timestamp: Annotated[str, AfterValidator(_moment)] | None = None
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=MAX_LENGTH)] | None = None
    cancel: bool = False
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Execution(_Params):
    """A call of a function of an agent."""

    agent_id: _Id
    function: _Id
    input: dict[str, Any]
    meta: Meta


def read_execution(params: JsonObject) -> Execution:
    """The checked parameters.

    Raises:
        RpcError: `Invalid params`; `data.faults` names each field with the reason, without its value.
    """
    try:
        return Execution.model_validate(params)
    except ValidationError as error:
        faults = [_fault(each["loc"], each["msg"]) for each in error.errors(include_input=False, include_url=False)]
        sentence = "; ".join(f"{fault['field']}: {fault['reason']}" for fault in faults)
        named: JsonObject = {"agent_id": params["agent_id"]} if isinstance(params.get("agent_id"), str) else {}
        data = {**named, "faults": faults}
        raise RpcError(INVALID_PARAMS, f"Invalid params: {sentence}", data, meta={"status": "error"}) from None


def _fault(where: tuple[int | str, ...], reason: str) -> dict[str, str]:
    return {"field": ".".join(map(str, where)), "reason": reason.removeprefix("Value error, ")}


_OWN_CODES = (METHOD_NOT_FOUND, INVALID_PARAMS, AGENT_ERROR, UNREACHABLE)
"""Codes of an agent's own errors that the contract knows (section 6.2). Others are sent as -32000."""

CODES: Mapping[str, int] = {
    "invalid_arguments": INVALID_PARAMS,
    "key_reused": INVALID_PARAMS,
    "turn_timeout": UNREACHABLE,
    "tool_unavailable": UNREACHABLE,
    "agent_unreachable": UNREACHABLE,
    "agent_failed": UNREACHABLE,
    "worker_lost": UNREACHABLE,
    "busy": UNREACHABLE,
    "budget_exhausted": UNREACHABLE,
    "undecodable": INTERNAL_ERROR,
    "content_expired": INTERNAL_ERROR,
    "content_damaged": INTERNAL_ERROR,
    "internal": INTERNAL_ERROR,
}
"""The code of a failed turn or a refused call. Of all others: the agent's function failed (-32000)."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Makes the answer to one call."""

    asked: Execution

    def succeed(self, result: Json, milliseconds: int, outcome: TurnOutcome | None = None) -> Answer:
        """The answer with a result."""
        return Answer(result, self._meta("success", milliseconds, outcome))

    def error(
        self,
        code: int,
        message: str,
        facts: JsonObject,
        outcome: TurnOutcome | None = None,
        turn_id: str | None = None,
    ) -> RpcError:
        """An error, with the facts that are not None in its `data`."""
        known: JsonObject = {
            "agent_id": self.asked.agent_id,
            "function": self.asked.function,
            "task_id": self.asked.meta.task_id,
            "turn_id": outcome.turn_id if outcome is not None else turn_id,
        }
        data = {name: value for name, value in (known | facts).items() if value is not None}
        return RpcError(code, message, data, meta=self._meta("error", _milliseconds(outcome), outcome))

    def end(self, end: TurnEnd, tool: ToolDefinition, misfits: Sequence[str] = ()) -> Answer:
        """The answer for a turn that ended; `misfits`: what in it does not fit the output schema of the tool.

        Raises:
            RpcError: it did not succeed.
        """
        outcome = end.outcome
        match end.answer:
            case Result() as answer if misfits:
                message = f"The agent's answer is not valid: {'; '.join(misfits)}."
                facts: JsonObject = {"code": "invalid_answer", "retryable": False, "result": _result(answer, tool)}
                raise self.error(AGENT_ERROR, message, facts, outcome)
            case Result(is_error=False) as answer:
                return self.succeed(_result(answer, tool), _milliseconds(outcome), outcome)
            case Result() as answer:
                raise self._tool_error(answer, outcome)
            case InputRequired() as answer:
                message = "The function asks for input, which only an MCP client can give."
                facts = {"code": "input_required", "requests": answer.input_requests}
                raise self.error(AGENT_ERROR, message, facts, outcome)
            case Fault(protocol_code=int(code), message=message, data=data):
                raise self._own_error(code, message, data, outcome)
            case Fault(message=message):
                raise self._failed(outcome, outcome.code or "internal", message)
            case None:
                word = outcome.code or "content_expired"
                raise self._failed(outcome, word, TURN_ERRORS.get(word, TURN_ERRORS["internal"]))

    def refusal(self, refusal: Refusal) -> RpcError:
        """The error of a call that is not executed."""
        facts: JsonObject = {
            "code": refusal.code,
            "retryable": refusal.retry_after_ms is not None,
            "retry_after_ms": refusal.retry_after_ms,
            "faults": [{"field": "input", "reason": fault} for fault in refusal.faults] or None,
        }
        return self.error(CODES.get(refusal.code, AGENT_ERROR), refusal.message, facts, turn_id=refusal.turn_id)

    def _failed(self, outcome: TurnOutcome, word: str, message: str) -> RpcError:
        facts: JsonObject = {"code": word, "retryable": outcome.retryable}
        return self.error(CODES.get(word, AGENT_ERROR), message, facts, outcome)

    def _tool_error(self, answer: Result, outcome: TurnOutcome) -> RpcError:
        """The error that the function has answered with: a data agent's own, or a tool error of MCP."""
        match (answer.meta or {}).get(RPC_ERROR):
            case {"code": int(code), "message": str(message), **rest}:
                return self._own_error(code, message, rest.get("data"), outcome)
            case _:
                message = "\n".join(_texts(answer)) or "Agent function error"
                return self.error(AGENT_ERROR, message, {"code": "tool_error"}, outcome)

    def _own_error(self, code: int, message: str, data: Json, outcome: TurnOutcome) -> RpcError:
        if code in _OWN_CODES:
            return self.error(code, message, {"code": "tool_error", "data": data}, outcome)
        original: JsonObject = {"code": code, "message": message, "data": data}
        return self.error(AGENT_ERROR, message, {"code": "tool_error", "original": original}, outcome)

    def _meta(self, status: str, milliseconds: int, outcome: TurnOutcome | None) -> JsonObject:
        meta: JsonObject = {
            "status": status,
            "execution_time_ms": milliseconds,
            "task_id": self.asked.meta.task_id,
        }
        return meta if outcome is None else meta | {"turn_id": outcome.turn_id, "attempts": outcome.attempt}


def _result(answer: Result, tool: ToolDefinition) -> Json:
    """The function's value: structured content, or else the only text, or else all content blocks."""
    match answer.structured:
        case {"result": value} if tool.meta == WRAPPED:
            return value
        case None:
            pass
        case structured:
            return structured
    if len(answer.content) == 1 and (texts := _texts(answer)):
        return texts[0]
    return {"content": list(answer.content)}


def _texts(answer: Result) -> list[str]:
    return [block["text"] for block in answer.content if isinstance(block.get("text"), str)]


def _milliseconds(outcome: TurnOutcome | None) -> int:
    """The time from the claim of the turn to its end."""
    if outcome is None or outcome.started_at is None:
        return 0
    return max(0, round((outcome.ended_at - outcome.started_at).total_seconds() * 1000))
