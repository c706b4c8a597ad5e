"""Agents that misbehave: a call of one ends with a sentence, harms no other call, and stays within bounds."""

import asyncio
import json
import tracemalloc

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send
from tests.requirements import requirement
from tests.waiting import eventually, soon
from tests.workspaces_world.foreign.raw_agents import MEBIBYTE, RawAgents
from tests.workspaces_world.served import Served

from pallas_mcp_calls.calls import AgentCalls
from pallas_mcp_calls.health import NO_HEALTH
from pallas_mcp_calls.model import CallFailed, Progress, Target


@pytest.mark.parametrize(
    ("mode", "code", "lost", "sent"),
    [
        ("html", "not_mcp", False, False),
        ("status_401", "unauthorized", False, False),
        ("status_403", "forbidden", False, False),
        ("status_404", "not_found", False, False),
        ("status_500", "protocol", False, False),
        ("status_503", "unavailable", True, False),
        ("no_json", "not_mcp", False, False),
        ("deep", "not_mcp", False, False),
        ("elsewhere", "not_mcp", False, False),
        ("huge", "too_large", False, True),
        ("huge_event", "too_large", False, True),
        ("values", "too_large", False, True),
        ("cut", "connection_lost", True, True),
        ("ends", "connection_lost", True, True),
        ("compressed", "not_mcp", False, True),
        ("refuses", "protocol", False, True),
    ],
)
async def test_a_call_that_fails_says_why_and_whether_the_answer_may_still_come(
    agents: RawAgents, calls: AgentCalls, mode: str, code: str, lost: bool, sent: bool
) -> None:
    agents.modes[mode] = mode
    with pytest.raises(CallFailed) as failure:
        await soon(calls.call(Target(agents.url(mode)), None, {"message": "hello"}))
    assert (failure.value.code, failure.value.lost, failure.value.sent) == (code, lost, sent), str(failure.value)
    assert agents.base not in str(failure.value)


@pytest.mark.parametrize("then", ["status_503", "status_401", "html", "cut", "huge", "refuses", "no_json"])
async def test_a_call_that_fails_ends_no_other_call_on_the_same_connection(
    agents: RawAgents, calls: AgentCalls, then: str
) -> None:
    agent = f"beside_{then}"
    agents.modes[agent] = "hang_before"
    target = Target(agents.url(agent))
    running = asyncio.create_task(calls.call(target, "send_message", {"message": "hello"}))
    await agents.until_called(agent, tool="send_message")
    agents.modes[agent] = then
    with pytest.raises(CallFailed):
        await soon(calls.call(target, "send_message", {"message": "hello"}))
    agents.modes[agent] = "well"
    assert (await soon(calls.call(target, "send_message", {"message": "again"}))).text == "echo: again"
    assert not running.done()
    agents.go.set()
    assert (await soon(running)).text == "echo: hello"
    agents.go.clear()


async def test_progress_that_never_ends_is_slowed_down_and_keeps_little(agents: RawAgents, calls: AgentCalls) -> None:
    agents.modes["flood"] = "flood"
    seen = list[float]()
    enough = asyncio.Event()

    async def slow(progress: Progress) -> None:
        seen.append(progress.progress)
        if progress.progress > 1_500:
            enough.set()
        await asyncio.sleep(0.01)

    running = asyncio.create_task(calls.call(Target(agents.url("flood")), None, {}, on_progress=slow))
    await soon(enough.wait())
    assert len(seen) < 1_000, "old progress is dropped for a slow reader"
    assert seen == sorted(seen)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_huge_answer_is_not_held_in_memory(agents: RawAgents, calls: AgentCalls) -> None:
    agents.modes["memory"] = "huge"
    tracemalloc.start()
    try:
        with pytest.raises(CallFailed, match="larger than 16 MiB"):
            await soon(calls.call(Target(agents.url("memory")), "send_message", {}))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * MEBIBYTE


async def test_closing_the_stream_cancels_a_call(agents: RawAgents, calls: AgentCalls) -> None:
    agents.modes["cancelled"] = "hang"
    running = asyncio.create_task(calls.call(Target(agents.url("cancelled")), "send_message", {}))
    await agents.until_called("cancelled", tool="send_message")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: agents.gone["cancelled"] > 0)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("prose", NO_HEALTH),
        ("html", "what answers at the agent's address does not speak MCP"),
        ("huge", "the agent's answer is larger than 1 MiB"),
        ("status_401", "the agent wants another token, or one at all"),
        ("status_503", "the agent's server answered with status 503"),
        ("cut", "the connection to the agent was lost"),
        ("refuses", "the agent refuses the call: No"),
    ],
)
@requirement("P-4.9")
async def test_whatever_is_no_health_is_an_error(agents: RawAgents, calls: AgentCalls, mode: str, message: str) -> None:
    agents.modes[f"health_{mode}"] = mode
    report = await soon(calls.health(Target(agents.url(f"health_{mode}"))))
    assert (report.status, report.message) == ("error", message)


@requirement("P-4.9")
async def test_a_health_that_does_not_come_is_an_error_after_three_seconds(
    agents: RawAgents, calls: AgentCalls
) -> None:
    modes = ("hang", "hang_before", "flood")
    agents.modes.update({f"slow_{mode}": mode for mode in modes})
    began = asyncio.get_running_loop().time()
    reports = await asyncio.gather(*(calls.health(Target(agents.url(f"slow_{mode}"))) for mode in modes))
    assert {(report.status, report.message) for report in reports} == {("error", "did not answer within 3 s")}
    assert 2.9 < asyncio.get_running_loop().time() - began < 4.5


@pytest.mark.parametrize(
    ("answered", "status", "message"),
    [
        ({"status": "ok"}, "ok", None),
        ({"status": "ok", "message": "ignored"}, "ok", None),
        ({"status": "degraded", "message": " slow\n index "}, "degraded", "slow index"),
        ({"status": "error"}, "error", "no reason given"),
        ({"status": "error", "message": 7}, "error", "no reason given"),
        ({"status": "fine"}, "error", NO_HEALTH),
        (["ok"], "error", NO_HEALTH),
        ("ok", "error", NO_HEALTH),
        ("", "error", NO_HEALTH),
        ('{"status": "ok"} {}', "error", NO_HEALTH),
        ("[" * 10_000, "error", NO_HEALTH),
    ],
    ids=range(11),
)
async def test_only_the_object_of_the_contract_is_a_health(
    agents: RawAgents, calls: AgentCalls, answered: object, status: str, message: str | None
) -> None:
    agents.healths["answering"] = answered
    report = await calls.health(Target(agents.url("answering")))
    assert (report.status, report.message) == (status, message)


async def test_a_server_that_answers_a_health_check_too_late_keeps_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_mcp_calls.calls.HEALTH_SECONDS", 0.2)
    released, deleted = asyncio.Event(), asyncio.Event()

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "DELETE" and request.headers["mcp-session-id"] == "late":
            deleted.set()
        method = json.loads(await request.body() or b"{}").get("method")
        if method != "initialize":
            await Response(status_code=400 if method == "server/discover" else 202)(scope, receive, send)
            return
        await released.wait()
        info = {"name": "late", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
        body = {"jsonrpc": "2.0", "id": json.loads(await request.body())["id"], "result": result}
        await JSONResponse(body, headers={"mcp-session-id": "late"})(scope, receive, send)

    async with Served(serve) as server, AgentCalls() as calls:
        assert (await soon(calls.health(Target(server.base)))).message == "did not answer within 0.2 s"
        released.set()
        await soon(deleted.wait())
