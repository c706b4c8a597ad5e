"""Calls of an agent that could not be started anywhere are refused at once; without any worker they wait."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from mcp_types import CallToolResult
from tests.builders import turn_requested
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import Front, a_lab, until
from tests.waiting import eventually, soon, within

from pallas_bus import kv
from pallas_contracts.agents import Limits, WorkerPresence
from pallas_contracts.catalog import WORKERS
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, TurnStatus
from pallas_turns.cancel import WaitingTurn
from pallas_turns.claims import TurnRef, claim, claim_state, stored_outcome
from pallas_turns.content import fetch, offload
from pallas_turns.queue import ensure_consumer, queue_state, submit
from pallas_turns.write import CONTENT_SECONDS


async def present(platform: Platform, worker: str, *, hosts: bool, **failed: str) -> None:
    """Publish the presence of a worker, with or without the agent `bench`."""
    agents = (f"{platform.team}.bench",) if hosts else (f"{platform.team}.other",)
    reasons = {f"{platform.team}.{agent}": why for agent, why in failed.items()}
    presence = WorkerPresence(worker=f"{platform.team}-{worker}", slots=4, agents=agents, failed=reasons, at=utc_now())
    await kv.put(platform.bus, WORKERS, presence, worker=presence.worker)


async def serving(platform: Platform) -> Front:
    """A gateway that serves the bench."""
    await platform.publish()
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    front = await platform.gateway()
    await platform.served(front)
    return front


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The facts of a tool error."""
    assert result.is_error
    return (result.meta or {})["pallas/error"]


async def until_worker_known(front: Front, platform: Platform, worker: str) -> None:
    """Wait until the gateway knows the worker."""
    await eventually(lambda: f"{platform.team}-{worker}" in front.gateway.calls.presences)


async def test_a_call_of_an_agent_that_failed_on_every_worker_is_refused_with_the_reason(platform: Platform) -> None:
    front = await serving(platform)
    for worker in ("w1", "w2"):
        await present(platform, worker, hosts=False, bench="its module could not be loaded: ImportError")
        await until_worker_known(front, platform, worker)
    async with front.client(platform.team, "bench") as client, within(3.0):
        result = await soon(client.call_tool("wait", {"file": "x"}))
    assert error_of(result) == {"code": "agent_failed", "retryable": True, "retry_after_ms": 5000}
    assert result.content[0].model_dump()["text"] == (
        "agent_failed: The agent could not be started: its module could not be loaded: ImportError"
    )
    assert (await queue_state(platform.bus, platform.team, "bench")).waiting == 0
    assert front.counted("pallas_calls_refused_total", team=platform.team, agent="bench", reason="agent_failed") == 1


async def test_a_call_waits_while_any_worker_has_the_agent_or_no_worker_exists(platform: Platform) -> None:
    front = await serving(platform)
    async with front.client(platform.team, "bench") as client:
        calls = {asyncio.create_task(client.call_tool("wait", {"file": "x"}))}
        await waiting(platform, 1)
        await present(platform, "w1", hosts=False, bench="no such module")
        await present(platform, "w2", hosts=True)
        for worker in ("w1", "w2"):
            await until_worker_known(front, platform, worker)
        calls.add(asyncio.create_task(client.call_tool("wait", {"file": "x"})))
        await waiting(platform, 2)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


async def test_a_worker_that_does_not_host_the_team_is_not_counted_as_failed(platform: Platform) -> None:
    front = await serving(platform)
    await present(platform, "w1", hosts=False)
    await until_worker_known(front, platform, "w1")
    async with front.client(platform.team, "bench") as client:
        call = asyncio.create_task(client.call_tool("wait", {"file": "x"}))
        await waiting(platform, 1)
        call.cancel()
        await asyncio.wait({call})


async def test_a_call_that_waits_ends_when_its_agent_fails_on_every_worker(platform: Platform) -> None:
    front = await serving(platform)
    async with front.client(platform.team, "bench") as client:
        call = asyncio.create_task(client.call_tool("wait", {"file": "x"}))
        await waiting(platform, 1)
        await present(platform, "w1", hosts=False, bench="no such module")
        error = error_of(await soon(call))
    assert (error["code"], error["retryable"]) == ("agent_failed", True)
    assert (await queue_state(platform.bus, platform.team, "bench")).waiting == 0
    cancel = await platform.claim(CancelRequested)
    assert (await platform.outcome(cancel)).status == "cancelled"


async def test_a_call_waits_no_longer_than_queue_timeout_for_a_worker(platform: Platform) -> None:
    await platform.publish(limits=Limits(queue_timeout=0.5))
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    front = await platform.gateway()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        result = await soon(client.call_tool("wait", {"file": "x"}))
    assert error_of(result)["code"] == "agent_failed"
    assert "No worker of the agent was there for 0.5 s" in result.content[0].model_dump()["text"]


async def test_a_turn_that_was_claimed_is_not_given_up(platform: Platform) -> None:
    front = await serving(platform)
    request = turn_requested(platform.team, "bench")
    calls = front.gateway.calls
    await present(platform, "w1", hosts=False, bench="no such module")
    await until_worker_known(front, platform, "w1")
    await claim(platform.bus, TurnRef.of(request), Claimed(attempt=1, worker="w", at=utc_now()), after=0)
    with WaitingTurn(calls.waiting, request, 0, 0.0) as turn:
        for _ in range(3):
            await soon(calls.waiting.look())
    assert turn.given_up is None
    assert isinstance((await claim_state(platform.bus, TurnRef.of(request))).claim, Claimed)


@pytest.mark.parametrize(("keep", "seconds"), [({"cancelled": 7200.0}, 7200), ({}, CONTENT_SECONDS)])
async def test_a_turn_whose_worker_is_lost_ends_when_no_other_can_go_on_and_its_content_is_kept_as_its_agent_says(
    platform: Platform, keep: dict[TurnStatus, float], seconds: float
) -> None:
    front = await serving(platform)
    await platform.publish(limits=Limits(keep=keep))
    request, calls = turn_requested(platform.team, "bench"), front.gateway.calls
    await present(platform, "w1", hosts=False, bench="no such module")
    await until_worker_known(front, platform, "w1")
    position = (await submit(platform.bus, request)).seq
    lost = Claimed(attempt=1, worker="gone", at=utc_now())
    answer = await offload(platform.bus, TurnRef.of(request), "answer-1-a", b"what a tool answered")
    await claim(platform.bus, TurnRef.of(request), lost, after=0)
    with WaitingTurn(calls.waiting, request, position, None, lost) as turn:
        for _ in range(3):
            await soon(calls.waiting.look())
    assert turn.given_up is not None
    assert (turn.given_up.code, turn.given_up.retry_after_ms) == ("worker_lost", None)
    outcome = await stored_outcome(platform.bus, TurnRef.of(request))
    assert outcome is not None
    assert (outcome.status, outcome.attempt) == ("cancelled", 1)
    assert outcome.content_until == outcome.ended_at + timedelta(seconds=seconds)
    assert await fetch(platform.bus, TurnRef.of(request), answer) == b"what a tool answered"
    assert (await queue_state(platform.bus, platform.team, "bench")).waiting == 0


async def waiting(platform: Platform, number: int) -> None:
    """Wait until so many turns of the bench wait."""

    async def look() -> bool:
        return (await queue_state(platform.bus, platform.team, "bench")).waiting == number

    await until(look)


async def test_an_agent_with_a_broken_module_is_refused_until_it_is_repaired(platform: Platform) -> None:
    a_lab(platform.folder, platform.team, lambda text: text + "  late:\n    kind: function\n    module: late.py\n")
    module, works = platform.folder / "late.py", (platform.folder / "bench.py").read_text("utf-8")
    module.write_text(works, "utf-8")
    await platform.worker()
    front = await platform.gateway()
    await platform.served(front, "late")

    def known_to_fail() -> bool:
        return any(f"{platform.team}.late" in worker.failed for worker in front.gateway.calls.presences.values())

    async def answer() -> str:
        async with front.client(platform.team, "late") as client:
            return (await soon(client.call_tool("say", {"text": "hello"}))).content[0].model_dump()["text"]

    assert await answer() == "hello (attempt 1)"
    module.write_text("raise RuntimeError('a secret')\n", "utf-8")
    await eventually(known_to_fail)
    reason = "its module could not be loaded: RuntimeError"
    assert await answer() == f"agent_failed: The agent could not be started: {reason}"
    module.write_text(works, "utf-8")
    await eventually(lambda: not known_to_fail())
    assert await answer() == "hello (attempt 1)"
