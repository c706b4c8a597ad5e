"""Messages of both kinds: what is read, and how it is answered, whatever arrives."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import Collected, soon

from pallas_contracts.bounds import Json, JsonObject
from pallas_jsonrpc.messages import (
    AGENT_ERROR,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Request,
    Response,
    RpcError,
    Unreadable,
    read_message,
)
from pallas_jsonrpc.serving import MOST_IN_A_BATCH, Answer, encode, read_requests, serve


async def echo(request: Request) -> Answer:
    """Answer with the parameters, or fail as the method says."""
    match request.method:
        case "fail":
            raise RpcError(AGENT_ERROR, "It failed.", {"agent_id": "x"}, meta={"status": "error"})
        case "break":
            raise RuntimeError("a secret")
        case "nan":
            return Answer(float("nan"))
        case _:
            return Answer(request.named, {"status": "success"})


async def answer_to(message: Json) -> Any:
    """The answer to a message; None if there is none."""
    encoded = await serve(message, echo)
    return None if encoded is None else json.loads(encoded)


async def test_a_request_of_the_dialect_is_answered_without_version_and_with_its_meta() -> None:
    asked: JsonObject = {"method": "x", "params": {"a": 1}}
    assert await answer_to(asked) == {"result": {"a": 1}, "meta": {"status": "success"}}
    assert await answer_to({**asked, "id": 7}) == {"result": {"a": 1}, "meta": {"status": "success"}, "id": 7}


async def test_a_request_with_a_null_id_is_answered_and_one_without_is_a_notification() -> None:
    asked: JsonObject = {"jsonrpc": "2.0", "method": "x"}
    answered = {"jsonrpc": "2.0", "result": {}, "meta": {"status": "success"}, "id": None}
    assert await answer_to({**asked, "id": None}) == answered
    assert await answer_to(asked) is None


async def test_an_error_has_code_message_data_and_its_meta_beside_it() -> None:
    error = {"code": AGENT_ERROR, "message": "It failed.", "data": {"agent_id": "x"}}
    assert await answer_to({"method": "fail"}) == {"error": error, "meta": {"status": "error"}}


@pytest.mark.parametrize("method", ["break", "nan"])
async def test_a_handler_that_breaks_is_an_internal_error_without_details(method: str) -> None:
    answer = await answer_to({"jsonrpc": "2.0", "method": method, "id": 1})
    assert answer["error"] == {"code": INTERNAL_ERROR, "message": "Internal error"}


async def test_a_handler_that_breaks_spoils_no_other_answer_of_its_batch() -> None:
    answers = await answer_to([{"method": "nan", "id": 1}, {"method": "x", "id": 2}])
    assert [set(each) - {"meta"} for each in answers] == [{"error", "id"}, {"result", "id"}]


async def test_parameters_by_position_are_invalid_where_names_are_wanted() -> None:
    answer = await answer_to({"jsonrpc": "2.0", "method": "x", "params": [1], "id": 1})
    assert answer["error"]["code"] == INVALID_PARAMS
    assert answer["error"]["data"]["faults"][0]["field"] == "params"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("text", "a message must be an object"),
        ({"jsonrpc": "1.0", "method": "x", "id": 7}, 'jsonrpc must be "2.0"'),
        ({"jsonrpc": 2.0, "method": "x", "id": 7}, 'jsonrpc must be "2.0"'),
        ({"jsonrpc": "2.0", "id": 7}, "method must be a string"),
        ({"method": None, "id": 7}, "method must be a string"),
        ({"method": "x", "params": "bar", "id": 7}, "params must be an object"),
        ({"method": "x", "params": None, "id": 7}, "params must be an object"),
        ({"method": "x", "id": True}, "id must be a string, a number or null"),
        ({"method": "x", "id": {}}, "id must be a string, a number or null"),
        ({"method": "x", "id": [1]}, "id must be a string, a number or null"),
        ({"jsonrpc": "2.0", "result": 1, "id": 7}, "a response was sent where a request must be"),
    ],
    ids=str,
)
async def test_what_is_no_request_is_refused_with_its_id_if_that_can_be_read(message: Json, reason: str) -> None:
    readable = isinstance(message, dict) and message["id"] == 7
    error = {"code": INVALID_REQUEST, "message": "Invalid Request", "data": {"reason": reason}}
    assert await answer_to(message) == {"jsonrpc": "2.0", "error": error, "id": 7 if readable else None}


def test_a_batch_has_at_most_fifty_requests() -> None:
    assert read_requests(encode([1] * MOST_IN_A_BATCH)) == [1] * MOST_IN_A_BATCH
    with pytest.raises(Unreadable) as refused:
        read_requests(encode([1] * (MOST_IN_A_BATCH + 1)))
    assert refused.value.code == INVALID_REQUEST


async def test_requests_of_a_batch_run_at_the_same_time_and_are_answered_in_order() -> None:
    all_there = asyncio.Barrier(MOST_IN_A_BATCH)

    async def meet(request: Request) -> Answer:
        await all_there.wait()
        return Answer(request.named["n"])

    batch: list[Json] = [{"method": "x", "params": {"n": n}} for n in range(MOST_IN_A_BATCH)]
    answer = await soon(serve(batch, meet))
    assert answer is not None
    assert [each["result"] for each in json.loads(answer)] == list(range(MOST_IN_A_BATCH))


async def test_when_serving_is_cancelled_every_handler_is() -> None:
    begun, cancelled = Collected[str](), list[str]()

    async def hang(request: Request) -> Answer:
        begun.add(request.method)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request.method)
            raise
        return Answer(None)

    serving = asyncio.create_task(serve([{"method": "a"}, {"method": "b"}], hang))
    assert await begun.count(2) == ["a", "b"]
    serving.cancel()
    await asyncio.wait({serving})
    assert sorted(cancelled) == ["a", "b"]


async def test_each_request_is_reported_with_its_method_and_code() -> None:
    reported = list[tuple[str, int]]()
    batch: list[Json] = [{"method": "x"}, {"method": "fail"}, {"jsonrpc": "2.0", "method": "break"}, 1]
    await serve(batch, echo, lambda method, code: reported.append((method, code)))
    assert sorted(reported) == [("", INVALID_REQUEST), ("break", INTERNAL_ERROR), ("fail", AGENT_ERROR), ("x", 0)]


@pytest.mark.parametrize(
    ("message", "code", "data"),
    [
        ({"code": 1, "message": "m"}, 1, None),
        ({"code": 1, "message": "m", "data": {"a": 1}}, 1, {"a": 1}),
        ({"code": 1, "message": "m", "data": "text"}, 1, {"data": "text"}),
    ],
    ids=str,
)
def test_the_error_of_a_response_is_read_with_its_data(message: JsonObject, code: int, data: JsonObject | None) -> None:
    read = read_message({"error": message, "id": 3})
    assert isinstance(read, Response)
    assert read.error is not None
    assert (read.id, read.numbered, read.error.code, read.error.data) == (3, True, code, data)


@pytest.mark.parametrize(
    "message",
    [
        {"result": 1, "error": {"code": 1, "message": "m"}},
        {"error": None},
        {"error": {"code": True, "message": "m"}},
        {"error": {"code": 1.5, "message": "m"}},
        {"error": {"code": 1}},
    ],
    ids=str,
)
def test_a_malformed_response_is_refused(message: JsonObject) -> None:
    with pytest.raises(Unreadable):
        read_message(message)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "method": st.sampled_from(["x", "fail", "break", "nan"]) | VALUES,
        "params": VALUES,
        "id": VALUES,
        "result": VALUES,
    },
)


@given(st.lists(VALUES | OBJECTS, min_size=1, max_size=5))
def test_every_message_is_answered_by_the_rules(batch: list[Any]) -> None:
    encoded = asyncio.run(serve(read_requests(encode(batch)), echo))
    answers: list[dict[str, Any]] = [] if encoded is None else json.loads(encoded)
    for message, answer in zip([each for each in batch if not is_notification(each)], answers, strict=True):
        assert ("result" in answer) != ("error" in answer)
        if answer.get("error", {}).get("code") == INVALID_REQUEST:
            assert (answer["jsonrpc"], "id" in answer) == ("2.0", True)
        else:
            assert envelope(answer) == envelope(message)


def is_notification(message: Any) -> bool:
    """Whether a message is a notification, as the specification describes one."""
    match message:
        case {"id": _}:
            return False
        case {"jsonrpc": "2.0", "method": str(), "params": dict() | list()}:
            return True
        case {"jsonrpc": "2.0", "method": str()}:
            return "params" not in message
        case _:
            return False


def envelope(message: dict[str, Any]) -> dict[str, Any]:
    """The members that an answer has in common with its request."""
    return {name: message[name] for name in ("jsonrpc", "id") if name in message}


@given(st.binary())
def test_every_body_is_read_or_refused(body: bytes) -> None:
    with suppress(Unreadable):
        read_requests(body)
