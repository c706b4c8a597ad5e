"""What is posted to an agent is read once and strictly: a message, or a batch of revision 2025-03-26."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from starlette.datastructures import Headers
from tests.builders import turn_outcome
from tests.unit.agent_gateway.paths import HOST, Answered, Asked, Paths, Script, gateway

from agent_gateway.handshake.batch import check_batch
from pallas_contracts.turns import Progress, Result, TurnRequested
from pallas_jsonrpc.messages import Unreadable
from pallas_turns.claims import Cursor
from pallas_turns.model import TurnEnd

MODERN, LEGACY = LATEST_MODERN_VERSION, LATEST_HANDSHAKE_VERSION
META = "io.modelcontextprotocol/"
MODERN_META = {
    f"{META}protocolVersion": MODERN,
    f"{META}clientCapabilities": {},
    f"{META}clientInfo": {"name": "tests", "version": "0"},
}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "work", "arguments": {"n": 1}},
}


def _done(request: TurnRequested) -> TurnEnd:
    answer = Result(content=({"type": "text", "text": str(request.arguments["n"])},))
    return TurnEnd(turn_outcome(request), answer, Cursor(1, 9))


DONE = Script((Progress(progress=1),), _done)


@pytest.fixture
async def paths(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Paths]:
    async with gateway(monkeypatch) as made:
        yield made


async def post(paths: Paths, version: str | None, body: bytes, script: Script = DONE) -> Answered:
    """Post the body, with the headers of a `tools/call`."""
    headers = [
        (b"host", HOST),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, text/event-stream"),
        *([(b"mcp-protocol-version", version.encode())] if version is not None else []),
        *([(b"mcp-method", b"tools/call"), (b"mcp-name", b"work")] if version == MODERN else []),
    ]
    return await paths.ask(Asked(tuple(headers), body), script, own=True)


def call_with(version: str, x: str) -> bytes:
    """A call with that text as an argument."""
    meta = json.dumps(MODERN_META if version == MODERN else {})
    params = f'{{"name": "work", "arguments": {{"n": 1, "x": {x}}}, "_meta": {meta}}}'
    return f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}'.encode("utf-8", "surrogatepass")


def errors_of(answer: Answered) -> dict[str, Any]:
    assert answer.status == 400
    return json.loads(answer.body)


def frames(answer: Answered) -> list[dict[str, Any]]:
    """The messages on an event stream."""
    assert (b"content-type", b"text/event-stream") in answer.headers
    return [json.loads(line[6:]) for line in answer.body.split(b"\r\n") if line.startswith(b"data: ")]


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize(
    ("x", "reason"),
    [
        ('"\\ud800"', "a text has a lone surrogate"),
        ('"\ud800"', "it is not UTF-8"),
        ("NaN", "NaN is not JSON"),
        ("1e400", "a number is too large"),
        ("[" * 250 + "]" * 250, "it is nested too deeply"),
        ("[" * 900 + "]" * 900, "it is nested too deeply"),
        ('{"a": 1, "a": 2}', "an object has the key 'a' twice"),
    ],
    ids=range(7),
)
async def test_json_that_readers_read_differently_is_refused_and_makes_no_turn(
    paths: Paths, version: str, x: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await post(paths, version, call_with(version, x))
    assert errors_of(answer) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": f"Parse error: {reason}", "data": {"reason": reason}},
    }
    assert (paths.calls.seen, caplog.records) == ([], [])


@pytest.mark.parametrize("version", [MODERN, LEGACY, None])
@pytest.mark.parametrize("given", ["1.0", "1.5", "null", "true", "[1]", "{}"])
async def test_a_request_with_an_id_that_is_none_is_refused(paths: Paths, version: str | None, given: str) -> None:
    body = call_with(version or LEGACY, "1").replace(b'"id": 7', f'"id": {given}'.encode())
    error = errors_of(await post(paths, version, body))["error"]
    assert (error["code"], error["message"]) == (-32600, "Invalid Request: id must be a string or a whole number")
    assert paths.calls.seen == []


async def test_a_foreign_host_learns_nothing_of_what_it_posted(paths: Paths) -> None:
    headers = ((b"host", b"evil.example"), (b"content-type", b"application/json"))
    assert (await paths.ask(Asked(headers, b"{"), DONE, own=True)).status == 421


@pytest.mark.parametrize("version", [None, "2025-03-26"])
async def test_each_message_of_a_batch_is_served_as_if_it_had_been_sent_alone(
    paths: Paths, version: str | None
) -> None:
    calls: list[Any] = [CALL | {"id": n, "params": {"name": "work", "arguments": {"n": n}}} for n in (1, 2)]
    calls[0]["params"]["_meta"] = {"progressToken": "mine"}
    others: list[Any] = [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
        CALL | {"id": 1.5},
        {"jsonrpc": "2.0", "id": "a", "result": {}},
        5,
    ]
    answer = await post(paths, version, json.dumps([*calls, *others]).encode())
    said = frames(answer)
    results = {each["id"]: each["result"] for each in said if "result" in each}
    assert {each["params"]["progressToken"] for each in said if "method" in each} == {"mine"}
    assert results["p"] == {}
    assert [results[n]["content"][0]["text"] for n in (1, 2)] == ["1", "2"]
    assert sorted(each["error"]["code"] for each in said if "error" in each) == [-32602, -32600]
    assert len(said) == 6
    assert answer.complete


async def test_a_batch_without_requests_is_accepted_without_an_answer(paths: Paths) -> None:
    body = json.dumps([{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2).encode()
    answer = await post(paths, None, body)
    assert (answer.status, answer.body, answer.complete) == (202, b"", True)


@pytest.mark.parametrize(
    ("version", "batch", "reason"),
    [
        (LEGACY, [CALL], "only revision 2025-03-26 has batches"),
        (None, list[object](), "a batch must have 1 to 50 requests"),
        (None, [0] * 51, "a batch must have 1 to 50 requests"),
        (None, [{"method": "initialize"}], "initialize must not be in a batch"),
    ],
)
async def test_a_batch_that_may_not_be_sent_is_refused(
    paths: Paths, version: str | None, batch: list[object], reason: str
) -> None:
    error = errors_of(await post(paths, version, json.dumps(batch).encode()))["error"]
    assert (error["code"], error["message"]) == (-32600, f"Invalid Request: {reason}")


def test_a_bearer_for_one_call_is_not_used_for_a_batch_of_calls() -> None:
    check_batch([CALL, {"method": "ping"}], Headers(), calls=1)
    with pytest.raises(Unreadable, match="Invalid Request") as refused:
        check_batch([CALL, CALL], Headers(), calls=1)
    assert refused.value.reason == "this bearer is valid for 1 tools/call"


async def test_when_the_caller_of_a_batch_disconnects_all_its_streams_end(paths: Paths) -> None:
    arrived, never = asyncio.Semaphore(0), asyncio.Event()

    async def wait() -> None:
        arrived.release()
        await never.wait()

    async def leave(connection: Any) -> None:
        await arrived.acquire()
        await arrived.acquire()
        connection.gone.set()

    headers = ((b"host", HOST), (b"content-type", b"application/json"), (b"accept", b"*/*"))
    body = json.dumps([CALL, CALL | {"id": 8}]).encode()
    await paths.ask(Asked(headers, body), Script((), _done, wait), own=True, connected=leave)
    assert paths.calls.seen.count({"caller left": False}) == 2
