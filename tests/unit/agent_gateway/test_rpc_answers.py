"""What `agent.execute` answers for every way in which a call can be refused and a turn can end."""

from datetime import timedelta
from typing import Any

import pytest
from tests.builders import turn_outcome, turn_requested

from agent_gateway.rpc.answers import Answers, Execution, read_execution
from pallas_contracts.agents import ToolDefinition
from pallas_contracts.turns import TURN_ERRORS, Fault, InputRequired, Result, TurnError
from pallas_jsonrpc.messages import RpcError
from pallas_turns.model import Refusal, TurnEnd

REQUEST = turn_requested("data")
TURN = REQUEST.turn_id
TOOL = ToolDefinition(name="fetch")
WRAPPED = ToolDefinition(name="fetch", meta={"pallas/wrapped": True})
TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "data": "", "mimeType": "image/png"}

PARAMS: dict[str, Any] = {"agent_id": "news", "function": "fetch", "input": {}, "meta": {"task_id": "task_001"}}
FACTS = {"agent_id": "news", "function": "fetch", "task_id": "task_001", "turn_id": TURN}

ANSWERS = Answers(Execution.model_validate(PARAMS))


def end(answer: Result | InputRequired | Fault | None, **outcome: Any) -> TurnEnd:
    """A turn that ended so, 134 ms after it was claimed."""
    ended = turn_outcome(REQUEST, attempt=2, **outcome)
    return TurnEnd(ended.model_copy(update={"started_at": ended.ended_at - timedelta(milliseconds=134)}), answer)


def error(answer: Result | InputRequired | Fault | None, **outcome: Any) -> RpcError:
    """The error of a turn that ended so."""
    with pytest.raises(RpcError) as raised:
        ANSWERS.end(end(answer, **outcome), TOOL)
    return raised.value


@pytest.mark.parametrize(
    ("answer", "tool", "result"),
    [
        (Result(content=(TEXT,), structured={"a": 1}), TOOL, {"a": 1}),
        (Result(content=(TEXT,), structured=[]), TOOL, []),
        (Result(content=(TEXT,), structured={"result": [1, 2]}), TOOL, {"result": [1, 2]}),
        (Result(content=(TEXT,), structured={"result": [1, 2]}), WRAPPED, [1, 2]),
        (Result(content=(TEXT,), structured={"result": None}), WRAPPED, None),
        (Result(content=(TEXT,)), TOOL, "hello"),
        (Result(content=(TEXT, TEXT)), TOOL, {"content": [TEXT, TEXT]}),
        (Result(content=(IMAGE,)), TOOL, {"content": [IMAGE]}),
        (Result(), TOOL, {"content": []}),
    ],
    ids=str,
)
def test_a_result_is_the_functions_value(answer: Result, tool: ToolDefinition, result: object) -> None:
    answered = ANSWERS.end(end(answer), tool)
    assert answered.result == result
    assert answered.meta == {
        "status": "success",
        "execution_time_ms": 134,
        "task_id": "task_001",
        "turn_id": TURN,
        "attempts": 2,
    }


def test_a_result_against_its_schema_is_an_error_that_has_the_result() -> None:
    with pytest.raises(RpcError) as raised:
        ANSWERS.end(end(Result(structured={"n": "one"})), TOOL, ["n must be of type number"])
    assert (raised.value.code, raised.value.message) == (
        -32000,
        "The agent's answer is not valid: n must be of type number.",
    )
    assert raised.value.data == FACTS | {"code": "invalid_answer", "retryable": False, "result": {"n": "one"}}


def test_a_text_without_a_text_is_none() -> None:
    assert ANSWERS.end(end(Result(content=({"type": "text"},))), TOOL).result == {"content": [{"type": "text"}]}


def test_a_turn_that_nobody_claimed_took_no_time() -> None:
    answered = ANSWERS.end(TurnEnd(turn_outcome(REQUEST), Result(content=(TEXT,))), TOOL)
    assert answered.meta is not None
    assert answered.meta["execution_time_ms"] == 0


def test_an_error_names_agent_function_task_and_turn() -> None:
    failed = error(Fault(message="It is gone."), status="failed", code="agent_unreachable")
    assert (failed.code, failed.message) == (-32001, "It is gone.")
    assert failed.data == FACTS | {"code": "agent_unreachable", "retryable": False}
    assert failed.meta is not None
    assert (failed.meta["status"], failed.meta["execution_time_ms"]) == ("error", 134)


def test_a_tool_error_is_an_agent_function_error_with_its_text() -> None:
    failed = error(Result(content=(TEXT, IMAGE, TEXT), is_error=True))
    assert (failed.code, failed.message, failed.data) == (-32000, "hello\nhello", FACTS | {"code": "tool_error"})
    assert error(Result(is_error=True)).message == "Agent function error"


@pytest.mark.parametrize("code", [-32601, -32602, -32000, -32001])
def test_an_agents_own_error_of_the_contract_is_passed_on(code: int) -> None:
    meta = {"pallas/rpc-error": {"code": code, "message": "no such symbol", "data": {"symbol": "X"}}}
    failed = error(Result(is_error=True, meta=meta))
    assert (failed.code, failed.message) == (code, "no such symbol")
    assert failed.data == FACTS | {"code": "tool_error", "data": {"symbol": "X"}}


@pytest.mark.parametrize("code", [7, -32700, -32603, -32003])
def test_any_other_own_error_is_an_agent_function_error_with_the_original(code: int) -> None:
    own = {"code": code, "message": "strange", "data": None}
    for answer in (
        Result(is_error=True, meta={"pallas/rpc-error": own}),
        Fault(message="strange", protocol_code=code),
    ):
        failed = error(answer)
        assert (failed.code, failed.message) == (-32000, "strange")
        assert failed.data == FACTS | {"code": "tool_error", "original": own}


def test_a_question_for_input_is_an_error_with_the_questions() -> None:
    asked = InputRequired(input_requests={"name": {"method": "elicitation/create"}}, request_state="a secret")
    failed = error(asked, status="input_required")
    assert failed.code == -32000
    assert failed.data == FACTS | {"code": "input_required", "requests": asked.input_requests}


CODES: dict[int, set[str]] = {
    -32602: {"invalid_arguments", "key_reused"},
    -32001: {
        "turn_timeout",
        "tool_unavailable",
        "agent_unreachable",
        "agent_failed",
        "worker_lost",
        "busy",
        "budget_exhausted",
    },
    -32603: {"undecodable", "content_expired", "content_damaged", "internal"},
}


@pytest.mark.parametrize(("word", "sentence"), list(TURN_ERRORS.items()))
def test_every_code_of_a_failed_turn_is_an_error_of_the_contract(word: TurnError, sentence: str) -> None:
    wanted = next((code for code, words in CODES.items() if word in words), -32000)
    explained, forgotten = error(Fault(message="because"), status="failed", code=word), error(None, code=word)
    assert (explained.code, explained.message) == (wanted, "because")
    assert (forgotten.code, forgotten.message) == (wanted, sentence)
    assert ANSWERS.refusal(Refusal(word, "no")).code == wanted


def test_a_result_whose_content_has_expired_is_an_internal_error() -> None:
    failed = error(None)
    assert failed.code == -32603
    assert failed.data == FACTS | {"code": "content_expired", "retryable": False}


def test_a_refusal_says_when_to_try_again() -> None:
    refused = ANSWERS.refusal(Refusal("busy", "Too many.", 1000, limit="queue"))
    assert (refused.code, refused.message) == (-32001, "Too many.")
    assert refused.data is not None
    assert (refused.data["code"], refused.data["retryable"], refused.data["retry_after_ms"]) == ("busy", True, 1000)


def test_arguments_that_do_not_fit_are_named_one_by_one() -> None:
    refused = ANSWERS.refusal(Refusal("invalid_arguments", "They do not fit.", faults=("a is wrong", "b is wrong")))
    assert refused.code == -32602
    assert refused.data is not None
    assert refused.data["faults"] == [
        {"field": "input", "reason": "a is wrong"},
        {"field": "input", "reason": "b is wrong"},
    ]
    assert "turn_id" not in refused.data


def without(name: str, inside: str = "") -> dict[str, Any]:
    """The parameters without one of them, or without one in `meta`."""
    meta = {key: value for key, value in PARAMS["meta"].items() if key != inside}
    return {key: value for key, value in (PARAMS | {"meta": meta}).items() if inside or key != name}


def having(**meta: Any) -> dict[str, Any]:
    """The parameters with more in `meta`."""
    return {**PARAMS, "meta": {**PARAMS["meta"], **meta}}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        (without("agent_id"), "agent_id"),
        (without("function"), "function"),
        (without("input"), "input"),
        (without("meta"), "meta"),
        (without("meta", "task_id"), "meta.task_id"),
        ({**PARAMS, "agent_id": 7}, "agent_id"),
        ({**PARAMS, "agent_id": ""}, "agent_id"),
        ({**PARAMS, "function": "x" * 257}, "function"),
        ({**PARAMS, "input": []}, "input"),
        ({**PARAMS, "input": None}, "input"),
        ({**PARAMS, "input": "{}"}, "input"),
        ({**PARAMS, "meta": "x"}, "meta"),
        (having(task_id=""), "meta.task_id"),
        (having(task_id="x" * 257), "meta.task_id"),
        (having(task_id=1), "meta.task_id"),
        (having(timestamp=""), "meta.timestamp"),
        (having(timestamp=1748444400), "meta.timestamp"),
        (having(timestamp="2025-05-28"), "meta.timestamp"),
        (having(timestamp="2025-05-28T15:00:00"), "meta.timestamp"),
        (having(timestamp="2025-02-29T15:00:00Z"), "meta.timestamp"),
        (having(timestamp="2025-05-28T25:00:00Z"), "meta.timestamp"),
        (having(timeout=0), "meta.timeout"),
        (having(timeout=-1), "meta.timeout"),
        (having(timeout="5"), "meta.timeout"),
        (having(timeout=True), "meta.timeout"),
        (having(idempotency_key=""), "meta.idempotency_key"),
        (having(idempotency_key="x" * 201), "meta.idempotency_key"),
    ],
    ids=str,
)
def test_a_parameter_that_is_missing_or_wrong_is_named(params: dict[str, Any], field: str) -> None:
    with pytest.raises(RpcError) as refused:
        read_execution(params)
    assert refused.value.code == -32602
    assert refused.value.data is not None
    assert [fault["field"] for fault in refused.value.data["faults"]] == [field]
    assert refused.value.message.startswith(f"Invalid params: {field}: ")


@pytest.mark.parametrize(
    "meta",
    [
        {"task_id": "x" * 256},
        {"timestamp": "2025-05-28T15:00:00Z"},
        {"timestamp": "2025-05-28t15:00:00.123456789+02:00"},
        {"timestamp": None, "timeout": None, "idempotency_key": None},
        {"timeout": 5, "more": ["of", "anything"]},
        {"idempotency_key": "x" * 200},
    ],
    ids=str,
)
def test_meta_may_have_more_than_the_task(meta: dict[str, Any]) -> None:
    assert read_execution(having(**meta)).input == {}
