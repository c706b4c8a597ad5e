"""Answers to callers as MCP defines them: results, requests for input, and errors.

A failed turn is a tool error (`isError`), so that the caller's model can read it; only a violation of the protocol is a
protocol error. Every tool error has its code in `_meta`, and the id of the turn if there is one. What an agent answers
against MCP or its own schema is a tool error, too, and is passed on as far as it can be: the turn has been executed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.methods import serialize_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import ValidationError
from starlette.types import Send

from pallas_contracts.auth import AUTH_FAILURES
from pallas_contracts.errors import Denied, NotFound, PallasError, Rejected
from pallas_contracts.turns import TURN_ERRORS, Fault, InputRequired, JsonObject, Result, TurnError
from pallas_jsonrpc.messages import INVALID_REQUEST, NOT_ALLOWED, UNREACHABLE, Unreadable
from pallas_turns.model import Refusal, TurnEnd

ERROR_META = "pallas/error"
TURN_META = "pallas/turn"

_RESOURCE_NOT_FOUND = -32002
"""The handshake era's code for an unknown resource; the modern era has no special one."""

type WireResult = dict[str, Any]

COMPLETE: WireResult = {"resultType": "complete"}
"""The modern era requires this in every result; the SDK removes it for older callers."""


def result_of(end: TurnEnd, *, modern: bool, faults: Sequence[str] = ()) -> WireResult:
    """The result of a turn that ended; `faults`: what in its structured content does not fit the tool's output schema.

    Raises:
        MCPError: the tool answered with a protocol error.
    """
    turn_id = end.outcome.turn_id
    match end.answer:
        case Result() as answer:
            return _completed(answer, turn_id, faults, modern=modern)
        case InputRequired() as answer if modern:
            asked: WireResult = {
                "resultType": "input_required",
                "inputRequests": answer.input_requests,
                "requestState": answer.request_state,
            }
            return asked if _is_valid(asked, modern=True) else _invalid(["it asks for what MCP does not have"], turn_id)
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


def _completed(answer: Result, turn_id: str, faults: Sequence[str], *, modern: bool) -> WireResult:
    content, meta = list(answer.content), {**(answer.meta or {}), TURN_META: turn_id}
    structured: object = answer.structured
    result: WireResult = {**COMPLETE, "content": content, "isError": answer.is_error, "_meta": meta}
    if modern or isinstance(structured, dict):
        if structured is not None:
            result["structuredContent"] = structured
    else:
        content += _in_words(answer)
    plain = answer.meta is None and all(map(_is_plain, content))
    if not faults and (plain or _is_valid(result, modern=modern)):
        return result
    odd = [n for n, block in enumerate(content) if not _is_valid({**COMPLETE, "content": [block]}, modern=modern)]
    for n in odd:
        content[n] = _text(content[n])
    if result.pop("structuredContent", None) is not None:
        content += _in_words(answer)
    error = _invalid([*faults, *(f"content[{n}] is no content block of MCP" for n in odd)], turn_id)
    return {**error, "content": [*error["content"], *content], "_meta": {**meta, **error["_meta"]}}


def _invalid(faults: Sequence[str], turn_id: str) -> WireResult:
    """The tool error of a turn that was executed, and whose answer is not as it has to be."""
    return tool_error("invalid_answer", f"The agent's answer is not valid: {'; '.join(faults)}.", turn_id)


def _is_plain(block: JsonObject) -> bool:
    """Whether a block is nothing but a text: most are, and need no further look."""
    return block.keys() == {"type", "text"} and block["type"] == "text" and isinstance(block["text"], str)


def _is_valid(result: WireResult, *, modern: bool) -> bool:
    """Whether MCP has such results. The SDK drops content that it does not know, or answers with an error alone."""
    version = LATEST_MODERN_VERSION if modern else LATEST_HANDSHAKE_VERSION
    try:
        sent = serialize_server_result("tools/call", version, result)
    except ValidationError:
        return False
    return all(name in sent for name in ("content", "inputRequests") if name in result)


def _in_words(answer: Result) -> list[WireResult]:
    """The structured content as a text, for callers that get it in no other way; none if there is a text already."""
    has_text = any(block.get("type") == "text" for block in answer.content)
    return [] if has_text or answer.structured is None else [_text(answer.structured)]


def _text(value: object) -> WireResult:
    return {"type": "text", "text": json.dumps(value, ensure_ascii=False)}


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


type Headers = tuple[tuple[bytes, bytes], ...]

_RPC_CODES: Mapping[int, int] = {401: NOT_ALLOWED, 403: NOT_ALLOWED, 503: UNREACHABLE}
"""The code of a JSON-RPC error at `/rpc`, by HTTP status. Of all others, and at the MCP endpoints: -32600."""


async def refuse(send: Send, status: int, message: str, headers: Headers = (), *, rpc: bool = False) -> None:
    """Send an HTTP error with a JSON-RPC error as its body. `rpc`: the request was sent to `/rpc`."""
    code = _RPC_CODES.get(status, INVALID_REQUEST) if rpc else INVALID_REQUEST
    await _send(send, status, {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, headers)


async def refuse_unreadable(send: Send, error: Unreadable) -> None:
    """Refuse a body that is no message; the reason is in the message and in the data of the error."""
    wire = {**error.wire, "message": f"{error.message}: {error.reason}"}
    await _send(send, 400, {"jsonrpc": "2.0", "id": None, "error": wire})


async def _send(send: Send, status: int, error: JsonObject, headers: Headers = ()) -> None:
    body = json.dumps(error).encode()
    start = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def refuse_caller(send: Send, error: PallasError, *, rpc: bool = False) -> None:
    """Refuse a caller: 401 for a bad or missing bearer, 403 when not allowed, 503 when the bearer cannot be checked."""
    match error:
        case Denied(code="not_allowed"):
            await refuse(send, 403, error.message, rpc=rpc)
        case Denied(code="missing" | "signature"):
            await refuse(send, 401, error.message, ((b"www-authenticate", b"Bearer"),), rpc=rpc)
        case Denied():
            challenge = f'Bearer error="invalid_token", error_description="{AUTH_FAILURES.get(error.code, "")}"'
            await refuse(send, 401, error.message, ((b"www-authenticate", challenge.encode()),), rpc=rpc)
        case _:
            message = "The bearer cannot be checked right now. Try again shortly."
            await refuse(send, 503, message, ((b"retry-after", b"1"),), rpc=rpc)
