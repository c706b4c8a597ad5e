"""`agent.execute` at `/rpc`: any agent is called by JSON-RPC 2.0 or in the dialect of data agents."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import httpx
import pytest
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.rpc import TASK, Message, Rpc, execute, strict
from tests.integration.real_parts import Front
from tests.requirements import requirement
from tests.waiting import eventually, soon

from pallas_contracts.agents import Limits
from pallas_contracts.turns import CancelRequested, Claimed, Result
from pallas_turns.claims import TurnRef

LLM = "  harper: {model: offline, title: Harper}\n"
MOST = 20_000


@pytest.fixture
async def front(platform: Platform) -> Front:
    """A gateway with a worker that has a function agent and an agent with a model."""
    await platform.worker(lambda text: text + LLM)
    front = await platform.gateway(max_body_bytes=str(MOST))
    await platform.served(front)
    await platform.served(front, "harper")
    return front


@pytest.fixture
def rpc(http: httpx.AsyncClient, front: Front, platform: Platform) -> Rpc:
    """`/rpc` of the team there: other teams of the module's broker have agents of the same names."""
    return Rpc(http, front, platform.team)


@requirement("D-3.1.1", "D-3.1.2", "D-3.1.3")
async def test_a_function_answers_with_its_result_and_meta_beside_it(rpc: Rpc, platform: Platform) -> None:
    answer = await rpc.answer(execute("bench", "say", {"text": "AAPL"}))
    assert set(answer) == {"result", "meta"}
    assert answer["result"] == "AAPL (attempt 1)"
    claimed = await platform.claim(Claimed)
    took = answer["meta"].pop("execution_time_ms")
    assert isinstance(took, int)
    assert answer["meta"] == {"status": "success", "task_id": TASK, "turn_id": claimed.turn_id, "attempts": 1}


async def test_an_agent_with_a_model_is_called_by_its_own_tool(rpc: Rpc) -> None:
    answer = await rpc.answer(strict(execute("harper", "harper", {"message": "hello"}), "a"))
    assert (answer["jsonrpc"], answer["id"], answer["result"]) == ("2.0", "a", "Echo: hello")


async def test_the_health_of_every_agent_is_a_function(rpc: Rpc) -> None:
    assert (await rpc.answer(execute("bench", "get_health")))["result"]["status"] in ("ok", "degraded", "error")


async def test_without_a_team_in_the_path_an_agent_is_found_by_team_and_name_or_by_a_name_of_its_own(
    rpc: Rpc, platform: Platform
) -> None:
    everywhere, own = replace(rpc, team=None), f"own-{platform.team}"
    assert "result" in await everywhere.answer(execute(f"{platform.team}/bench", "say"))
    await platform.publish(own)
    await platform.served(rpc.front, own)
    known = (await everywhere.answer(execute(own, "fly")))["error"]["data"]
    assert (known["reason"], known["known"]) == ("unknown function", ["wait"])


@requirement("D-6.1", "D-6.2", "D-6.3", "D-6.4", "D-7.3")
@pytest.mark.parametrize(
    ("request_", "code", "facts"),
    [
        (execute("bench", "fly"), -32601, {"reason": "unknown function"}),
        (execute("nobody", "say"), -32601, {"reason": "unknown agent"}),
        (execute("bench", "say", {"text": 7}), -32602, {"code": "invalid_arguments"}),
        (execute("bench", "say", task_id=None), -32602, {}),
        (execute("bench", "say", timestamp="yesterday"), -32602, {}),
        (execute("bench", "crash"), -32000, {"code": "tool_error"}),
        (execute("bench", "ask"), -32000, {"code": "input_required"}),
        (execute("harper", "harper", {"message": "/fail now"}), -32000, {"code": "model_failed"}),
    ],
    ids=["function", "agent", "input", "task", "time", "exception", "question", "model"],
)
async def test_an_error_has_code_message_and_data_with_the_agent(
    rpc: Rpc, request_: Message, code: int, facts: Message
) -> None:
    answer = await rpc.answer(request_)
    assert set(answer) == {"error", "meta"}
    assert set(answer["error"]) == {"code", "message", "data"}
    assert answer["error"]["code"] == code
    wanted = {"agent_id": request_["params"]["agent_id"], **facts}
    assert {name: answer["error"]["data"][name] for name in wanted} == wanted
    assert answer["meta"]["status"] == "error"


@requirement("D-6.5")
async def test_a_call_that_may_take_no_longer_is_cancelled(rpc: Rpc, platform: Platform) -> None:
    answer = await rpc.answer(execute("bench", "wait", {"file": str(platform.file())}, timeout=0.5))
    assert answer["error"]["code"] == -32001
    assert answer["error"]["data"]["code"] == "turn_timeout"
    cancel = await platform.claim(CancelRequested)
    assert isinstance(cancel.claim, CancelRequested)
    assert (cancel.turn_id, cancel.claim.reason) == (
        answer["error"]["data"]["turn_id"],
        "the time limit of the call has passed",
    )


@requirement("D-6.5")
async def test_a_call_for_which_there_is_no_room_says_when_to_try_again(rpc: Rpc, platform: Platform) -> None:
    await platform.publish("slow", limits=Limits(max_queued=1))
    await platform.served(rpc.front, "slow")
    first = asyncio.create_task(rpc.answer(execute("slow", "wait")))
    await eventually(lambda: rpc.front.counted("pallas_turns_in_flight") == 1)
    error = (await rpc.answer(execute("slow", "wait")))["error"]
    assert (error["code"], error["data"]["code"], error["data"]["retryable"]) == (-32001, "busy", True)
    assert error["data"]["retry_after_ms"] > 0
    first.cancel()
    await asyncio.wait({first})


@requirement("D-7.4")
async def test_the_log_of_a_turn_has_the_hash_of_its_task_and_the_answer(rpc: Rpc, platform: Platform) -> None:
    await rpc.send(execute("bench", "say", {"text": "AAPL"}, task_id="one of mine"))
    turn = await platform.claim(Claimed)
    feed = await platform.feeds.resume(TurnRef(turn.team, turn.agent, turn.turn_id))
    [answer] = [event.content async for event in feed if isinstance(event, Result)]
    assert answer == ({"type": "text", "text": "AAPL (attempt 1)"},)
    claim = turn.claim
    assert isinstance(claim, Claimed)
    assert claim.task_hash == rpc.front.gateway.http.endpoints.platform.key.task("one of mine")
    assert "one of mine" not in claim.model_dump_json()


async def test_a_notification_is_executed_and_not_answered(rpc: Rpc, platform: Platform) -> None:
    file = platform.file()
    file.touch()
    response = await rpc.send({"jsonrpc": "2.0", **execute("bench", "effect", {"file": str(file)})})
    assert (response.status_code, response.content) == (202, b"")
    assert file.with_suffix(".effects").read_text() == "1\n"


async def test_fifty_calls_of_a_batch_run_together(rpc: Rpc, platform: Platform) -> None:
    file = str(platform.file())
    batch = [strict(execute("bench", "wait", {"file": file}), number) for number in range(50)]
    calling = asyncio.create_task(rpc.send(batch))
    await eventually(lambda: rpc.front.counted("pallas_turns_in_flight") == 50)
    platform.files[0].touch()
    answers = (await calling).json()
    assert [answer["id"] for answer in answers] == list(range(50))
    assert {answer["result"] for answer in answers} == {"waited in attempt 1"}


async def leave(rpc: Rpc, platform: Platform, request: Message, **headers: str) -> str:
    """Send a request, wait until its turn has been claimed, and close the connection. Returns the turn."""
    async with httpx.AsyncClient(trust_env=False) as client:
        calling = asyncio.create_task(replace(rpc, http=client).send(request, **headers))
        claimed = await platform.claim(Claimed)
        calling.cancel()
        await asyncio.wait({calling})
    return claimed.turn_id


async def test_closing_the_connection_cancels_the_turn(rpc: Rpc, platform: Platform) -> None:
    turn_id = await leave(rpc, platform, execute("bench", "wait", {"file": str(platform.file())}))
    cancel = await platform.claim(CancelRequested)
    assert isinstance(cancel.claim, CancelRequested)
    assert (cancel.turn_id, cancel.claim.reason) == (turn_id, "the caller closed the stream")
    assert (await platform.outcome(cancel)).status == "cancelled"


@pytest.mark.parametrize(
    ("meta", "headers"), [({}, {"idempotency_key": "k"}), ({"idempotency_key": "k"}, {})], ids=["header", "meta"]
)
async def test_a_call_with_a_key_can_be_repeated_after_its_caller_left(
    rpc: Rpc, platform: Platform, meta: dict[str, str], headers: dict[str, str]
) -> None:
    call = execute("bench", "effect", {"file": str(platform.file())}, **meta)
    turn_id = await leave(rpc, platform, call, **headers)
    again = asyncio.create_task(rpc.answer(call, **headers))
    await eventually(lambda: rpc.front.counted("pallas_turns_joined_total", team=platform.team, agent="bench") == 1)
    platform.files[0].touch()
    assert (await again)["meta"]["turn_id"] == turn_id
    assert platform.files[0].with_suffix(".effects").read_text() == "1\n"


async def test_a_call_is_cancelled_by_its_key_after_its_caller_left(rpc: Rpc, platform: Platform) -> None:
    turn_id = await leave(rpc, platform, execute("bench", "wait", {"file": str(platform.file())}, idempotency_key="k"))
    error = (await rpc.answer(execute("bench", "wait", {}, idempotency_key="k", cancel=True)))["error"]
    assert (error["data"]["code"], error["data"]["turn_id"]) == ("cancelled", turn_id)
    assert (await platform.outcome(await platform.claim(CancelRequested))).status == "cancelled"


async def test_a_cancel_without_a_key_is_refused(rpc: Rpc) -> None:
    error = (await rpc.answer(execute("bench", "wait", {}, cancel=True)))["error"]
    assert (error["code"], error["data"]["faults"][0]["field"]) == (-32602, "meta.cancel")


@pytest.mark.parametrize("key", ["", "x" * 201], ids=["empty", "long"])
async def test_a_header_that_is_no_key_is_refused(rpc: Rpc, key: str) -> None:
    error = (await rpc.answer(execute("bench", "say"), idempotency_key=key))["error"]
    assert (error["code"], error["data"]["faults"][0]["field"]) == (-32602, "Idempotency-Key")


async def test_the_header_of_a_key_is_not_for_a_batch(rpc: Rpc) -> None:
    error = (await rpc.answer([execute("bench", "say")], idempotency_key="k"))["error"]
    assert (error["code"], "meta.idempotency_key" in error["data"]["reason"]) == (-32600, True)


@pytest.mark.parametrize(
    ("content", "code"),
    [(b'{"method": "x", "method": "y"}', -32700), (b"[]", -32600), (b"[1" + b",1" * 50 + b"]", -32600)],
    ids=["twice", "empty", "too many"],
)
async def test_a_body_that_is_no_request_is_answered_with_an_error(rpc: Rpc, content: bytes, code: int) -> None:
    response = await rpc.http.post(rpc.url, content=content, headers={"content-type": "application/json-rpc"})
    assert (response.status_code, response.json()["error"]["code"], response.json()["id"]) == (200, code, None)


@pytest.mark.parametrize("method", ["rpc.nothing", "tools/call", "", "agent.Execute"])
async def test_an_unknown_method_is_not_found(rpc: Rpc, method: str) -> None:
    answer = await rpc.answer(strict({"method": method}, 3))
    assert answer == {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": 3}


@pytest.mark.parametrize(
    ("method", "content", "headers", "status", "code"),
    [
        ("GET", b"", {}, 405, -32600),
        ("POST", b"{}", {"content-type": "text/plain"}, 415, -32600),
        ("POST", b"{}", {"content-type": "application/jsonx"}, 415, -32600),
        ("POST", b"{}", {"host": "evil.example"}, 421, -32600),
        ("POST", b"{}", {"origin": "http://evil.example"}, 403, -32003),
        ("POST", b" " * (MOST + 1), {}, 413, -32600),
    ],
    ids=["method", "text", "type", "host", "origin", "size"],
)
async def test_a_request_that_is_not_served_is_an_http_error_with_a_json_rpc_body(
    rpc: Rpc, method: str, content: bytes, headers: dict[str, str], status: int, code: int
) -> None:
    sent = {"content-type": "application/json"} | headers
    response = await rpc.http.request(method, rpc.url, content=content, headers=sent)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    assert response.json()["error"]["code"] == code
    assert response.headers.get("allow") == ("POST" if status == 405 else None)


async def test_a_body_of_unknown_length_is_refused_once_it_is_too_long(rpc: Rpc) -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(MOST):
            yield b"  "

    response = await rpc.http.post(rpc.url, content=pieces(), headers={"content-type": "application/json"})
    assert response.status_code == 413


async def test_requests_are_counted_by_method_and_code(rpc: Rpc) -> None:
    await rpc.send([execute("bench", "say"), execute("bench", "fly"), {"method": "of a stranger"}, 7])
    counted = {("agent.execute", "ok"), ("agent.execute", "-32601"), ("unknown", "-32601"), ("unknown", "-32600")}
    for method, code in counted:
        assert rpc.front.counted("pallas_rpc_requests_total", method=method, code=code) == 1, (method, code)


async def test_a_gateway_that_stops_cuts_off_a_call_and_cancels_nothing(rpc: Rpc, platform: Platform) -> None:
    calling = asyncio.create_task(rpc.send(execute("bench", "wait", {"file": str(platform.file())})))
    claimed = await platform.claim(Claimed)
    draining = asyncio.create_task(rpc.front.gateway.drain())
    await eventually(lambda: rpc.front.gateway.calls.draining)
    refused = await rpc.send(execute("bench", "say"))
    assert (refused.status_code, refused.json()["error"]["code"], refused.headers["retry-after"]) == (503, -32001, "1")
    draining.cancel()
    cut = await soon(calling)
    assert (cut.status_code, cut.json()["error"]["code"]) == (503, -32001)
    platform.files[0].touch()
    assert (await platform.outcome(claimed)).status == "completed"
    await asyncio.wait({draining})
