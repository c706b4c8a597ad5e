"""What a caller gets for every way in which a turn can end or be refused."""

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from tests.builders import turn_outcome, turn_requested

from agent_gateway.answers.results import (
    ERROR_META,
    TURN_META,
    read_error,
    refused,
    result_of,
)
from agent_gateway.mcp.definitions import AnswerSchemas
from pallas_contracts.agents import ToolDefinition
from pallas_contracts.errors import NotFound, PallasError, Rejected, Unavailable
from pallas_contracts.turns import TURN_ERRORS, Fault, InputRequired, Result
from pallas_turns.model import Refusal, TurnEnd

REQUEST = turn_requested("demo")
TURN = REQUEST.turn_id
TEXT = ({"type": "text", "text": "hello"},)


def end(answer: Result | InputRequired | Fault | None, **outcome: Any) -> TurnEnd:
    """A turn that ended so."""
    return TurnEnd(turn_outcome(REQUEST, **outcome), answer)


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
def test_an_answer_is_a_complete_result_with_the_turns_id(modern: bool) -> None:
    answer = Result(content=TEXT, structured={"n": 1}, meta={"own": True})
    result = result_of(end(answer), modern=modern)
    assert result == {
        "resultType": "complete",
        "content": list(TEXT),
        "structuredContent": {"n": 1},
        "isError": False,
        "_meta": {"own": True, TURN_META: TURN},
    }
    assert CallToolResult.model_validate(result).structured_content == {"n": 1}


def test_an_answer_without_structured_content_has_no_such_field() -> None:
    assert "structuredContent" not in result_of(end(Result(content=TEXT)), modern=True)


def test_an_empty_structured_answer_is_kept() -> None:
    assert result_of(end(Result(structured=[])), modern=True)["structuredContent"] == []


INVALID = {"code": "invalid_answer", "retryable": False, "turn_id": TURN}


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
def test_an_answer_against_its_schema_is_a_tool_error_that_has_the_answer(modern: bool) -> None:
    answer = Result(structured={"n": "one"}, meta={"own": True})
    result = result_of(end(answer), modern=modern, faults=["n must be of type number"])
    text = f"invalid_answer: The agent's answer is not valid: n must be of type number. (turn {TURN})"
    assert [block["text"] for block in result["content"]] == [text, '{"n": "one"}']
    assert (result["isError"], "structuredContent" in result) == (True, False)
    assert result["_meta"] == {"own": True, TURN_META: TURN, ERROR_META: INVALID}


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
@pytest.mark.parametrize(
    "odd", [{"type": "json", "json": {"a": 1}}, {"type": "text"}, {**TEXT[0], "_meta": 5}], ids=["type", "text", "meta"]
)
def test_a_block_that_mcp_does_not_have_costs_no_other_block(modern: bool, odd: dict[str, Any]) -> None:
    result = result_of(end(Result(content=(*TEXT, odd), structured={"n": 1})), modern=modern)
    text = f"invalid_answer: The agent's answer is not valid: content[1] is no content block of MCP. (turn {TURN})"
    assert result["content"][0]["text"] == text
    assert result["content"][1] == TEXT[0]
    assert json.loads(result["content"][2]["text"]) == odd
    assert result["_meta"][ERROR_META] == INVALID


def test_a_question_that_mcp_does_not_have_is_a_tool_error() -> None:
    asked = InputRequired(input_requests={"a": {"method": "odd"}})
    result = result_of(end(asked, status="input_required"), modern=True)
    assert (result["isError"], result["_meta"][ERROR_META]) == (True, INVALID)


def test_structured_content_that_is_no_object_is_a_text_in_the_handshake_era() -> None:
    result = result_of(end(Result(structured=[1])), modern=False)
    assert (result["content"], result["isError"]) == ([{"type": "text", "text": "[1]"}], False)
    assert result_of(end(Result(content=TEXT, structured=[1])), modern=False)["content"] == list(TEXT)


def test_a_tool_error_of_the_agent_is_passed_on() -> None:
    result = result_of(end(Result(content=TEXT, is_error=True)), modern=True)
    assert (result["isError"], result["content"]) == (True, list(TEXT))


def test_a_request_for_input_is_an_input_required_result_in_the_modern_era() -> None:
    form: dict[str, Any] = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = InputRequired(
        input_requests={"name": {"method": "elicitation/create", "params": form}}, request_state="first"
    )
    assert result_of(end(asked, status="input_required"), modern=True) == {
        "resultType": "input_required",
        "inputRequests": asked.input_requests,
        "requestState": "first",
    }


def test_a_request_for_input_is_a_tool_error_in_the_handshake_era() -> None:
    result = result_of(end(InputRequired(input_requests={}), status="input_required"), modern=False)
    assert result["isError"] is True
    assert result["_meta"][ERROR_META]["code"] == "input_required"


def test_a_failed_turn_is_a_tool_error_with_code_sentence_and_turn() -> None:
    failed = turn_outcome(REQUEST, status="failed", code="worker_lost").model_copy(update={"retryable": True})
    result = result_of(TurnEnd(failed, Fault(message="The worker was lost.")), modern=True)
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": f"worker_lost: The worker was lost. (turn {TURN})"}]
    assert result["_meta"] == {ERROR_META: {"code": "worker_lost", "retryable": True, "turn_id": TURN}}


def test_a_protocol_fault_is_a_json_rpc_error() -> None:
    fault = Fault(message="your client cannot", protocol_code=-32021, data={"required": ["sampling"]})
    with pytest.raises(MCPError) as raised:
        result_of(end(fault, status="failed", code="invalid_arguments"), modern=True)
    error = raised.value.error
    assert (error.code, error.message, error.data) == (-32021, "your client cannot", {"required": ["sampling"]})


def test_a_cancelled_turn_is_a_tool_error_that_says_so() -> None:
    result = result_of(end(None, status="cancelled", code="cancelled"), modern=False)
    assert TURN_ERRORS["cancelled"] in result["content"][0]["text"]
    assert result["_meta"][ERROR_META]["code"] == "cancelled"


def test_an_answer_whose_content_has_expired_is_a_tool_error() -> None:
    result = result_of(end(None), modern=True)
    assert result["isError"] is True
    assert result["_meta"][ERROR_META]["code"] == "content_expired"


def test_a_refusal_has_a_retry_time_and_no_turn_id() -> None:
    result = refused(Refusal("busy", "Too many turns wait.", 1000))
    assert result["content"] == [{"type": "text", "text": "busy: Too many turns wait."}]
    assert result["_meta"] == {ERROR_META: {"code": "busy", "retryable": True, "retry_after_ms": 1000}}


def test_a_refusal_of_arguments_is_not_retryable() -> None:
    result = refused(Refusal("invalid_arguments", "They do not fit."))
    assert result["_meta"] == {ERROR_META: {"code": "invalid_arguments", "retryable": False}}


@pytest.mark.parametrize(
    ("error", "method", "modern", "code", "data"),
    [
        (NotFound("gone"), "resources/read", True, -32602, {"code": "not_found", "uri": "a://b"}),
        (NotFound("gone"), "resources/read", False, -32002, {"code": "not_found", "uri": "a://b"}),
        (NotFound("gone"), "prompts/get", False, -32602, {"code": "not_found", "uri": "a://b"}),
        (Rejected("no"), "prompts/get", True, -32602, {"code": "invalid"}),
        (Rejected("no", protocol_code=-32050, data={"why": "x"}), "prompts/get", True, -32050, {"why": "x"}),
        (Rejected("no", protocol_code=-32050, data=None), "prompts/get", True, -32050, None),
        (Rejected("no", protocol_code="odd"), "prompts/get", True, -32602, {"code": "invalid"}),
        (Unavailable("away"), "resources/read", False, -32603, {"code": "unavailable"}),
    ],
)
def test_a_failed_read_is_a_json_rpc_error(
    error: PallasError, method: str, modern: bool, code: int, data: object
) -> None:
    raised = read_error(error, method, {"uri": "a://b", "other": 1}, modern=modern)
    assert (raised.error.code, raised.error.message, raised.error.data) == (code, error.message, data)


async def test_an_answer_that_is_too_large_to_check_is_passed_on() -> None:
    rows = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}}}
    tool = ToolDefinition(name="rows", output_schema={"type": "object", "properties": {"rows": rows}})
    checked = AnswerSchemas("red.harper")
    large = Result(structured={"rows": [{"a": 1}] * 160_000})
    assert await checked.misfits(tool, large) == []
    ids = Result(structured={"rows": [{"a": 10**18 + n} for n in range(1_001)]})
    assert await checked.misfits(tool, ids) == []
    assert await checked.misfits(tool, Result(structured={"rows": [{"a": 1}]})) == ["rows/0/a must be of type string"]
