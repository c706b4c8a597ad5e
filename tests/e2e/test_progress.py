"""Progress notifications as in the contract: their texts, order, values and stream."""

import re
from collections.abc import AsyncGenerator
from itertools import pairwise

import httpx
import pytest
from tests.e2e import wire
from tests.e2e.calls import Line, call
from tests.e2e.lab import Era, Lab
from tests.requirements import requirement

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


LINES = {
    "a tool": ("chief", ADD, ["toolbox/add: started", "toolbox/add: completed"]),
    "a tool that fails": (
        "chief",
        '/tool toolbox/fail {"message": "no luck"}\n/say still here',
        ["toolbox/fail: started", "toolbox/fail: failed"],
    ),
    "a sub-agent, whose steps are lines of its own": (
        "chief",
        '/tool reader {"message": "/tool look_up {\\"term\\": \\"turn\\"}"}',
        [
            "reader/reader__reader: started",
            "reader step 1 (llm)",
            "reader step 2 (tool)",
            "toolbox/look_up: started",
            "toolbox/look_up: completed",
            "reader step 3 (llm)",
            "reader/reader__reader: completed",
        ],
    ),
    "a tool with progress of its own": (
        "maker",
        '/tool long_task {"seconds": 0.3, "steps": 3}',
        [
            "toolbox/long_task: started",
            *(f"toolbox/long_task: step {number} of 3" for number in (1, 2, 3)),
            "toolbox/long_task: completed",
        ],
    ),
}
"""The agent, the message, and the lines between its second and its third step."""


@requirement("P-5.4", "P-5.5", "P-5.6", "P-5.7", "P-5.8", "P-5.9", "P-5.10", "P-5.11", "P-5.12", "P-5.14")
@pytest.mark.parametrize("what", LINES)
async def test_progress_of_steps_and_tools_has_the_texts_of_the_contract(lab: Lab, era: Era, what: str) -> None:
    agent, message, lines = LINES[what]
    async with lab.client(agent, era) as client:
        answer = await call(client, agent, f"/say I look into that.\n{message}")
    assert answer.messages == [f"{agent} step 1 (llm)", f"{agent} step 2 (tool)", *lines, f"{agent} step 3 (llm)"]
    check_values(era, answer.lines)
    assert not answer.result.is_error
    assert answer.text.startswith("I look into that.")


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
