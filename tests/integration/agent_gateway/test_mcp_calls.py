"""Calls through our own client for agents: what it makes of answers, refusals, questions and lost gateways."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.streams import KEY
from tests.integration.real_parts import Front, a_gateway
from tests.waiting import Collected, soon

from pallas_contracts.turns import CancelRequested
from pallas_mcp_calls.calls import AgentCalls
from pallas_mcp_calls.model import CallFailed, Progress, Question, Reply, Target


@pytest.fixture
async def calls() -> AsyncGenerator[AgentCalls]:
    """The client."""
    async with AgentCalls() as calls:
        yield calls


@pytest.fixture
async def front(platform: Platform) -> Front:
    """A gateway with a worker."""
    await platform.worker()
    return await platform.gateway("bench", log_key=KEY, request_state_key=KEY)


def target_at(front: Front, platform: Platform) -> Target:
    return Target(front.url(platform.team, "bench"))


async def test_an_answer_has_the_id_of_its_turn(front: Front, platform: Platform, calls: AgentCalls) -> None:
    answer = await soon(calls.call(target_at(front, platform), "say", {"text": "hello"}))
    assert (answer.text, answer.failed, answer.code) == ("hello (attempt 1)", False, None)
    assert len(answer.turn_id or "") == 32


async def test_a_tool_that_fails_is_a_failed_answer(front: Front, platform: Platform, calls: AgentCalls) -> None:
    answer = await soon(calls.call(target_at(front, platform), "crash", {}))
    assert (answer.failed, answer.code, answer.retryable) == (True, None, False)
    assert len(answer.turn_id or "") == 32
    assert "secret" not in answer.text


async def test_arguments_that_do_not_fit_are_a_failed_answer(
    front: Front, platform: Platform, calls: AgentCalls
) -> None:
    answer = await soon(calls.call(target_at(front, platform), "say", {"unknown": 1}))
    assert (answer.failed, answer.code) == (True, "invalid_arguments")


async def test_an_agent_that_is_not_there_is_said_in_the_words_of_the_gateway(
    front: Front, platform: Platform, calls: AgentCalls
) -> None:
    with pytest.raises(CallFailed, match=r"^team .* has no agent 'nobody'$") as failure:
        await soon(calls.call(Target(front.url(platform.team, "nobody")), None, {}))
    assert (failure.value.code, failure.value.lost) == ("not_found", False)


async def test_an_unknown_tool_is_refused(front: Front, platform: Platform, calls: AgentCalls) -> None:
    with pytest.raises(CallFailed, match="Unknown tool") as failure:
        await soon(calls.call(target_at(front, platform), "nothing", {}))
    assert (failure.value.code, failure.value.lost) == ("protocol", False)


async def test_a_question_is_the_same_for_whoever_calls_again_with_the_key(
    front: Front, platform: Platform, calls: AgentCalls
) -> None:
    asked = list[Question]()

    async def answer(question: Question) -> Reply:
        asked.append(question)
        return Reply("accept", {"name": "Ada"})

    for _ in range(2):
        result = await soon(calls.call(target_at(front, platform), "ask", {}, key="one", on_question=answer))
        assert result.text == "asked once: Ada"
    assert asked[0] == asked[1]
    assert asked[0].message == "Who?"


async def test_a_call_without_a_key_is_cancelled_with_its_task(
    front: Front, platform: Platform, calls: AgentCalls
) -> None:
    progress = Collected[Progress]()
    await calls.keeps_keys(target_at(front, platform))
    calling = asyncio.create_task(wait(calls, target_at(front, platform), platform, progress))
    await progress.count(1)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await platform.claim(CancelRequested)


async def test_a_call_whose_gateway_is_lost_is_joined_under_its_key_at_another(
    platform: Platform, calls: AgentCalls
) -> None:
    await platform.worker()
    progress = Collected[Progress]()
    async with AsyncExitStack() as doomed:
        first = await doomed.enter_async_context(a_gateway(platform.url, log_key=KEY, drain_seconds="0"))
        second = await platform.gateway(log_key=KEY)
        for front in (first, second):
            await platform.served(front)
        calling = asyncio.create_task(wait(calls, target_at(first, platform), platform, progress, key="one"))
        await progress.count(1)
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await first.gateway.drain()
        await doomed.aclose()
    with pytest.raises(CallFailed) as failure:
        await soon(calling)
    assert (failure.value.code, failure.value.lost, failure.value.sent) == ("connection_lost", True, True)
    with pytest.raises(CallFailed) as failure:
        await wait(calls, target_at(first, platform), platform, progress, key="one")
    assert (failure.value.code, failure.value.lost, failure.value.sent) == ("unreachable", True, False)
    again = asyncio.create_task(wait(calls, target_at(second, platform), platform, progress, key="one"))
    await progress.count(2)
    platform.files[-1].touch()
    assert await soon(again) == "waited in attempt 1"


async def wait(
    calls: AgentCalls, target: Target, platform: Platform, progress: Collected[Progress], **options: Any
) -> str:
    """Call `wait` for the platform's file."""

    async def on_progress(one: Progress) -> None:
        progress.add(one)

    if not platform.files:
        platform.file()
    arguments = {"file": str(platform.files[-1])}
    return (await calls.call(target, "wait", arguments, on_progress=on_progress, **options)).text
