"""Answers to callers as MCP defines them: results, requests for input, and errors.

A failed turn is a tool error (`isError`), so that the caller's model can read it; only a violation of the protocol is a
protocol error. Every tool error has its code in `_meta`, and the id of the turn if there is one.
"""

from collections.abc import Mapping
from typing import Any, Literal

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from pallas_calls.model import Refusal, TurnEnd
from pallas_contracts.errors import NotFound, PallasError, Rejected
from pallas_contracts.turns import TURN_ERRORS, Fault, InputRequired, Result, TurnError

ERROR_META = "pallas/error"
TURN_META = "pallas/turn"

_RESOURCE_NOT_FOUND = -32002
"""The handshake era's code for an unknown resource; the modern era has no special one."""

type WireResult = dict[str, Any]

COMPLETE: WireResult = {"resultType": "complete"}
"""The modern era requires this in every result; the SDK removes it for older callers."""


def result_of(end: TurnEnd, *, modern: bool) -> WireResult:
    """The result of a turn that ended.

    Raises:
        MCPError: the tool answered with a protocol error.
    """
    turn_id = end.outcome.turn_id
    match end.answer:
        case Result() as answer:
            return _completed(answer, turn_id)
        case InputRequired() as answer if modern:
            return {
                "resultType": "input_required",
                "inputRequests": answer.input_requests,
                "requestState": answer.request_state,
            }
        case InputRequired():
            return tool_error("input_required", "This tool asks for input; use MCP revision 2026-07-28.", turn_id)
        case Fault(protocol_code=int(code), message=message, data=data):
            raise MCPError(code=code, message=message, data=data)
        case Fault(message=message):
            return tool_error(end.outcome.code or "internal", message, turn_id, retryable=end.outcome.retryable)
        case None if (code := end.outcome.code) is not None:
            message = TURN_ERRORS.get(code, TURN_ERRORS["internal"])
            return tool_error(code, message, turn_id, retryable=end.outcome.retryable)
        case None:
            return content_expired(turn_id)


def content_expired(turn_id: str) -> WireResult:
    """The tool error of a turn whose answer has expired."""
    return tool_error("content_expired", TURN_ERRORS["content_expired"], turn_id)


def _completed(answer: Result, turn_id: str) -> WireResult:
    result: WireResult = {
        **COMPLETE,
        "content": list(answer.content),
        "isError": answer.is_error,
        "_meta": {**(answer.meta or {}), TURN_META: turn_id},
    }
    if answer.structured is not None:
        result["structuredContent"] = answer.structured
    return result


def refused(refusal: Refusal) -> WireResult:
    """The tool error of a call that is not executed."""
    return tool_error(refusal.code, refusal.message, refusal.turn_id, retry_after_ms=refusal.retry_after_ms)


def read_error(error: PallasError, method: str, asked: Mapping[str, Any], *, modern: bool) -> MCPError:
    """The protocol error of a prompt, resource or completion that could not be read; `asked` are its params."""
    match error:
        case NotFound():
            missing = {key: asked[key] for key in ("uri", "name") if key in asked}
            code = INVALID_PARAMS if modern or method != "resources/read" else _RESOURCE_NOT_FOUND
            return MCPError(code=code, message=error.message, data={"code": error.code, **missing})
        case Rejected(facts={"protocol_code": int(code), **rest}):
            return MCPError(code=code, message=error.message, data=rest.get("data"))
        case Rejected():
            return MCPError(code=INVALID_PARAMS, message=error.message, data={"code": error.code})
        case _:
            return MCPError(code=INTERNAL_ERROR, message=error.message, data={"code": error.code})


def tool_error(
    code: TurnError | Literal["input_required"],
    message: str,
    turn_id: str | None,
    *,
    retryable: bool = False,
    retry_after_ms: int | None = None,
) -> WireResult:
    """A tool error: a message for people and models, a code for programs."""
    facts: dict[str, Any] = {"code": code, "retryable": retryable or retry_after_ms is not None}
    if turn_id is not None:
        facts["turn_id"] = turn_id
    if retry_after_ms is not None:
        facts["retry_after_ms"] = retry_after_ms
    where = f" (turn {turn_id})" if turn_id else ""
    text = f"{code}: {message}{where}"
    return {**COMPLETE, "content": [{"type": "text", "text": text}], "isError": True, "_meta": {ERROR_META: facts}}
