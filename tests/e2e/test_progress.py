"""Progress notifications as in the contract: their texts, order, values and stream."""

import asyncio
import re
from collections.abc import AsyncGenerator
from itertools import pairwise

import httpx
import pytest
from tests.e2e import wire
from tests.e2e.calls import Line, call
from tests.e2e.lab import Era, Lab
from tests.e2e.turns import Turns
from tests.requirements import requirement
from tests.waiting import Collected, soon

PATTERNS = re.compile(
    r"^([\w-]+/[\w-]+: (started|completed|failed|.+)|[\w-]+ step \d+ \((llm|tool)\)|[\w-]+ queued: \d+ ahead)$"
)
ADD = '/tool toolbox/add {"a": 19, "b": 23}'


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """A plain HTTP client."""
    async with httpx.AsyncClient(timeout=30, verify=False) as client:
        yield client


def check_values(era: Era, lines: list[Line]) -> None:
    """Fail unless the values are as the era requires."""
    assert all(PATTERNS.match(line.message or "") for line in lines)
    if era == "auto":
        assert all(line.total is None for line in lines)
        assert all(before.progress < after.progress for before, after in pairwise(lines))
        return
    for line in lines:
        message = line.message or ""
        if message.endswith((": completed", ": failed")):
            assert (line.progress, line.total) == (1, 1)
        elif found := re.search(r" step (\d+) \(", message):
            assert (line.progress, line.total) == (int(found[1]), None)
        else:
            assert (line.progress, line.total) == (0, None)


@requirement("P-5.4", "P-5.5", "P-5.6", "P-5.7", "P-5.9", "P-5.10", "P-5.12")
async def test_progress_of_steps_and_tools_has_the_texts_of_the_contract(lab: Lab, era: Era) -> None:
    async with lab.client("chief", era) as client:
        answer = await call(client, "chief", f"/say I will add.\n{ADD}")
    assert answer.messages == [
        "chief step 1 (llm)",
        "chief step 2 (tool)",
        "toolbox/add: started",
        "toolbox/add: completed",
        "chief step 3 (llm)",
    ]
    check_values(era, answer.lines)


@requirement("P-5.14")
async def test_text_before_a_tool_call_is_in_the_result_and_not_in_the_progress(lab: Lab, era: Era) -> None:
    async with lab.client("chief", era) as client:
        answer = await call(client, "chief", f"/say Let me look into that.\n{ADD}\n/say There you are.")
    assert "Let me look into that." in answer.text
    assert "42" in answer.text
    assert answer.text.endswith("There you are.")
    assert not any("look into" in (message or "") for message in answer.messages)


@requirement("P-5.8", "P-5.11")
async def test_a_failed_tool_is_reported_in_progress_and_the_turn_goes_on(lab: Lab, era: Era) -> None:
    async with lab.client("chief", era) as client:
        answer = await call(client, "chief", '/tool toolbox/fail {"message": "no luck"}\n/say still here')
    assert answer.messages == [
        "chief step 1 (llm)",
        "chief step 2 (tool)",
        "toolbox/fail: started",
        "toolbox/fail: failed",
        "chief step 3 (llm)",
    ]
    check_values(era, answer.lines)
    assert not answer.result.is_error
    assert "no luck" in answer.text
    assert "still here" in answer.text


async def test_a_sub_agent_has_progress_as_a_tool_and_for_its_own_steps(lab: Lab, era: Era) -> None:
    async with lab.client("chief", era) as client:
        answer = await call(client, "chief", '/tool reader {"message": "/tool look_up {\\"term\\": \\"turn\\"}"}')
    assert answer.messages == [
        "chief step 1 (llm)",
        "chief step 2 (tool)",
        "reader/reader__reader: started",
        "reader step 1 (llm)",
        "reader step 2 (tool)",
        "toolbox/look_up: started",
        "toolbox/look_up: completed",
        "reader step 3 (llm)",
        "reader/reader__reader: completed",
        "chief step 3 (llm)",
    ]
    check_values(era, answer.lines)
    assert "One call of one tool" in answer.text


@requirement("P-5.15")
async def test_progress_of_parallel_tool_calls_interleaves_under_their_own_prefixes(lab: Lab, era: Era) -> None:
    slow = '{"message": "/sleep 0.4"}'
    async with lab.client("chief", era) as client:
        answer = await call(client, "chief", f"/parallel\n/tool reader {slow}\n/tool maker {slow}\n{ADD}")
    check_values(era, answer.lines)
    places = {message: place for place, message in enumerate(answer.messages)}
    starts = [places[f"{name}: started"] for name in ("reader/reader__reader", "maker/maker__maker", "toolbox/add")]
    ends = [places[f"{name}: completed"] for name in ("reader/reader__reader", "maker/maker__maker")]
    assert max(starts) < min(ends)
    assert answer.messages.count("chief step 2 (tool)") == 1
    assert {"reader step 1 (llm)", "maker step 1 (llm)", "chief step 3 (llm)"} <= set(answer.messages)


async def test_progress_of_a_downstream_tool_is_passed_on_under_its_name(lab: Lab, era: Era) -> None:
    async with lab.client("maker", era) as client:
        answer = await call(client, "maker", '/tool long_task {"seconds": 0.3, "steps": 3}')
    assert answer.messages == [
        "maker step 1 (llm)",
        "maker step 2 (tool)",
        "toolbox/long_task: started",
        "toolbox/long_task: step 1 of 3",
        "toolbox/long_task: step 2 of 3",
        "toolbox/long_task: step 3 of 3",
        "toolbox/long_task: completed",
        "maker step 3 (llm)",
    ]
    check_values(era, answer.lines)


@requirement("P-5.2")
async def test_progress_arrives_while_the_turn_runs(lab: Lab, era: Era) -> None:
    lines_received = Collected[Line]()
    async with lab.client("maker", era) as client:
        message = '/tool long_task {"seconds": 20, "steps": 200}'
        calling = asyncio.create_task(call(client, "maker", message, lines_received.add))
        await lines_received.until(lambda lines: any("step 2 of 200" in (line.message or "") for line in lines))
        assert not calling.done()
        calling.cancel()
        await asyncio.wait({calling})


async def test_the_caller_of_a_waiting_turn_gets_its_queue_position(lab: Lab, turns: Turns, era: Era) -> None:
    running, *queues = [Collected[Line]() for _ in range(3)]
    async with lab.client("narrow", era) as client:
        await soon(turns.queue_is_empty())
        first = asyncio.create_task(call(client, "narrow", "/sleep 60", running.add))
        await running.count(1)
        others = [asyncio.create_task(call(client, "narrow", "/say done", queue.add)) for queue in queues]
        for queue in queues:
            await queue.count(1)
        assert [line.message for line in running.items] == ["narrow step 1 (llm)"]
        first.cancel()
        await asyncio.wait({first})
        answers = await asyncio.gather(*others)
    queued = sorted(answer.messages[0] or "" for answer in answers)
    assert queued == ["narrow queued: 0 ahead", "narrow queued: 1 ahead"]
    for answer in answers:
        check_values(era, answer.lines)
        assert answer.messages[-1] == "narrow step 1 (llm)"


@requirement("P-5.3")
@pytest.mark.parametrize("token", ["a string", "17", 17, 0], ids=repr)
async def test_a_progress_token_is_returned_unchanged(
    lab: Lab, http: httpx.AsyncClient, era: Era, token: str | int
) -> None:
    *progress, result = await exchange(lab, http, era, {"progressToken": token})
    assert "result" in result
    assert progress
    tokens = [message["params"]["progressToken"] for message in progress]
    assert {(type(got), got) for got in tokens} == {(type(token), token)}


@requirement("P-5.1")
async def test_without_a_token_there_is_only_the_result(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    [result] = await exchange(lab, http, era, {})
    assert result["result"]["content"][-1]["text"].endswith("42")


@requirement("P-5.2", "P-5.16")
async def test_the_result_is_the_last_message_of_the_stream(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    messages = await exchange(lab, http, era, {"progressToken": "t"})
    assert ["id" in message for message in messages] == [False] * 5 + [True]
    assert {message["method"] for message in messages[:-1]} == {"notifications/progress"}


async def exchange(lab: Lab, http: httpx.AsyncClient, era: Era, meta: dict[str, object]) -> list[wire.Message]:
    """Call the chief, and return every message of the answer's stream."""
    url = lab.url("chief")
    params = {"name": "chief", "arguments": {"message": ADD}, "_meta": meta}
    if era == "auto":
        return await wire.answers(http, url, wire.modern("tools/call", params))
    return await wire.answers(http, url, wire.legacy("tools/call", params, await wire.shake_hands(http, url)))
