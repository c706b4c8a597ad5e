"""The examples of the JSON-RPC 2.0 specification, section 7, as they stand there."""

import json

import pytest

from pallas_contracts.bounds import Json, JsonObject
from pallas_jsonrpc.messages import METHOD_NOT_FOUND, Request, RpcError, Unreadable
from pallas_jsonrpc.serving import Answer, encode, read_requests, serve, unread

SINGLE = [
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
        '{"jsonrpc": "2.0", "result": 19, "id": 1}',
    ),
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
        '{"jsonrpc": "2.0", "result": -19, "id": 2}',
    ),
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
        '{"jsonrpc": "2.0", "result": 19, "id": 3}',
    ),
    (
        '{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}',
        '{"jsonrpc": "2.0", "result": 19, "id": 4}',
    ),
    ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', ""),
    ('{"jsonrpc": "2.0", "method": "foobar"}', ""),
    (
        '{"jsonrpc": "2.0", "method": "foobar", "id": "1"}',
        '{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}',
    ),
    (
        '{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]',
        '{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}',
    ),
    (
        '{"jsonrpc": "2.0", "method": 1, "params": "bar"}',
        '{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}',
    ),
]

BATCHES = [
    (
        """[
  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
  {"jsonrpc": "2.0", "method"
]""",
        '{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}',
    ),
    ("[]", '{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}'),
    (
        "[1]",
        """[
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}
]""",
    ),
    (
        "[1,2,3]",
        """[
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
  {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}
]""",
    ),
    (
        """[
        {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
        {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
        {"foo": "boo"},
        {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
        {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
    ]""",
        """[
        {"jsonrpc": "2.0", "result": 7, "id": "1"},
        {"jsonrpc": "2.0", "result": 19, "id": "2"},
        {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null},
        {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"},
        {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}
    ]""",
    ),
    (
        """[
        {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
        {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
    ]""",
        "",
    ),
]


async def handle(request: Request) -> Answer:
    """The methods of the examples."""
    match request.method, request.params:
        case "subtract", [int(minuend), int(subtrahend)]:
            return Answer(minuend - subtrahend)
        case "subtract", {"minuend": int(minuend), "subtrahend": int(subtrahend)}:
            return Answer(minuend - subtrahend)
        case "sum", [int(first), int(second), int(third)]:
            return Answer(first + second + third)
        case "get_data", _:
            return Answer(["hello", 5])
        case _:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")


async def answered(body: str) -> bytes | None:
    """The response to a body."""
    try:
        value = read_requests(body.encode())
    except Unreadable as error:
        return encode(unread(error))
    return await serve(value, handle)


def without_data(answer: Json) -> Json:
    """An answer without `error.data`, which the specification leaves to servers."""
    if isinstance(answer, list):
        return [without_data(each) for each in answer]
    assert isinstance(answer, dict)
    known: JsonObject = answer
    if "error" not in known:
        return known
    error: JsonObject = known["error"]
    return {**known, "error": {name: error[name] for name in ("code", "message")}}


@pytest.mark.parametrize(("sent", "received"), [*SINGLE, *BATCHES], ids=str)
async def test_an_example_of_the_specification_is_answered_as_it_says(sent: str, received: str) -> None:
    answer = await answered(sent)
    if not received:
        assert answer is None
    else:
        assert answer is not None
        assert without_data(json.loads(answer)) == json.loads(received)
