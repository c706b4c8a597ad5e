"""Turns of LLM agents on the offline model: their answers, their events and their failures."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.runtimes import Events, a_team, a_turn, text_of

from pallas_contracts.agents import AgentRead
from pallas_contracts.errors import NotFound
from pallas_contracts.turns import ModelCalled, Step, TextDelta
from pallas_turns.runtime import AgentRuntime, Failed

AGENTS = """
name: demo
agents:
  harper:
    depends_on: [research]
    model_capabilities: {vision: true}
  research:
    depends_on: [clerk]
  clerk: {}
  small:
    model_capabilities: {context_window: 50}
  hasty:
    max_iterations: 2
    depends_on: [clerk]
"""
PNG = {"data": base64.b64encode(b"picture").decode(), "mime_type": "image/png"}


@pytest.fixture
async def agents(tmp_path: Path) -> dict[str, AgentRuntime]:
    team = await a_team(tmp_path, {"agents.yaml": AGENTS, "fastagent.config.yaml": "default_model: offline\n"})
    assert team.failed == {}
    return {hosted.definition.agent: hosted.runtime for hosted in team.agents}


async def answer(agents: dict[str, AgentRuntime], message: str, agent: str = "harper", **arguments: Any) -> str:
    return text_of(await agents[agent].run_turn(a_turn(agent, message=message, **arguments), Events()))


async def test_an_agent_is_seeded_with_the_history_and_nothing_else(agents: dict[str, AgentRuntime]) -> None:
    history = [
        {"role": "user", "content": "one"},
        {"role": "user", "content": "two", "images": [PNG]},
        {"role": "nobody", "content": "skipped"},
        {"role": "assistant", "content": "three", "images": [PNG]},
    ]
    text = await answer(agents, "/history\n/images", history=history, images=[PNG])
    rows, images = (json.loads(line) for line in text.splitlines())
    assert rows == [
        {"role": "user", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "three"},
    ]
    picture = {"mime_type": "image/png", "bytes": 7}
    assert images == [picture | {"of": "turn"}, picture | {"of": "history"}, picture | {"of": "history"}]


async def test_a_history_that_ends_with_a_message_of_the_user_is_kept(agents: dict[str, AgentRuntime]) -> None:
    assert json.loads(await answer(agents, "/history", history=[{"role": "user", "content": "/say no"}])) == [
        {"role": "user", "content": "/say no"}
    ]


async def test_concurrent_turns_see_only_their_own_history(agents: dict[str, AgentRuntime]) -> None:
    async def one(number: int) -> str:
        return await answer(agents, "/sleep 0.01\n/history", history=[{"role": "user", "content": f"{number}"}])

    answers = await asyncio.gather(*(one(number) for number in range(50)))
    assert [json.loads(text) for text in answers] == [[{"role": "user", "content": f"{n}"}] for n in range(50)]


async def test_text_before_a_tool_call_is_part_of_the_answer(agents: dict[str, AgentRuntime]) -> None:
    message = '/say before\n/tool research {"message": "/say found"}\n/say after'
    assert await answer(agents, message) == "before\n\nfound\nafter"


async def test_sub_agents_nest_and_count_their_own_steps(agents: dict[str, AgentRuntime]) -> None:
    inner = json.dumps({"message": '/tool clerk {"message": "filed"}'})
    events = Events()
    outcome = await agents["harper"].run_turn(a_turn(message=f"/tool research {inner}"), events)
    assert text_of(outcome) == "Echo: filed"
    assert events.lines() == [
        "harper step 1 (llm)",
        "harper step 2 (tool)",
        "research/research__research: started",
        "research step 1 (llm)",
        "research step 2 (tool)",
        "clerk/clerk__clerk: started",
        "clerk step 1 (llm)",
        "clerk/clerk__clerk: completed",
        "research step 3 (llm)",
        "research/research__research: completed",
        "harper step 3 (llm)",
    ]


async def test_a_sub_agent_that_fails_is_a_failed_tool_and_the_turn_goes_on(agents: dict[str, AgentRuntime]) -> None:
    events = Events()
    message = '/tool research {"message": "/fail broken"}\n/say still here'
    text = text_of(await agents["harper"].run_turn(a_turn(message=message), events))
    assert "broken" in text
    assert "still here" in text
    assert "research/research__research: failed" in events.lines()


async def test_parallel_calls_are_made_in_one_step(agents: dict[str, AgentRuntime]) -> None:
    events = Events()
    call = '/tool research {"message": "/sleep 0.05\\n/say a"}'
    text = text_of(await agents["harper"].run_turn(a_turn(message=f"/parallel\n{call}\n{call}"), events))
    assert text == "a\na"
    assert [event.n for event in events.of(Step) if event.agent == "harper"] == [1, 2, 3]
    started = [line for line in events.lines() if "research__research" in line]
    assert started == ["research/research__research: started"] * 2 + ["research/research__research: completed"] * 2


async def test_an_unknown_tool_is_reported_as_failed(agents: dict[str, AgentRuntime]) -> None:
    events = Events()
    text = text_of(await agents["harper"].run_turn(a_turn(message="/tool toolbox/lost\n/say on"), events))
    assert text.startswith("toolbox/lost failed")
    assert text.endswith("on")
    assert "toolbox/lost: failed" in events.lines()


async def test_each_model_call_reports_its_tokens_and_its_text(agents: dict[str, AgentRuntime]) -> None:
    events = Events()
    await agents["harper"].run_turn(a_turn(message="/say a"), events)
    (called,) = events.of(ModelCalled)
    assert (called.agent, called.model) == ("harper", "offline")
    assert called.output_tokens > 0
    assert [event.text for event in events.of(TextDelta)] == ["a"]


async def test_an_empty_answer_is_replaced_by_done(agents: dict[str, AgentRuntime]) -> None:
    assert await answer(agents, "/sleep 0") == "Done."


@pytest.mark.parametrize(
    ("agent", "arguments", "code"),
    [
        ("harper", {"message": "/fail out of order"}, "model_failed"),
        ("small", {"message": "x", "history": [{"role": "user", "content": "y" * 300}]}, "context_overflow"),
        ("hasty", {"message": "/tool clerk\n/tool clerk\n/tool clerk"}, "iterations_exceeded"),
        ("small", {"message": "x", "images": [PNG]}, "vision_required"),
        ("harper", {"message": "x", "images": [{"data": "%", "mime_type": "image/png"}]}, "invalid_arguments"),
    ],
)
async def test_a_turn_that_cannot_be_answered_fails_with_a_code(
    agents: dict[str, AgentRuntime], agent: str, arguments: dict[str, Any], code: str
) -> None:
    outcome = await agents[agent].run_turn(a_turn(agent, **arguments), Events())
    assert isinstance(outcome, Failed)
    assert outcome.code == code


async def test_a_failed_model_call_gives_the_reason(agents: dict[str, AgentRuntime]) -> None:
    outcome = await agents["harper"].run_turn(a_turn(message="/fail out of order"), Events())
    assert isinstance(outcome, Failed)
    assert "out of order" in outcome.message


async def test_a_turn_ends_when_its_time_is_over_also_within_a_sub_agent(agents: dict[str, AgentRuntime]) -> None:
    turn = a_turn(message='/tool research {"message": "/sleep 60"}', remaining=0.2)
    outcome = await agents["harper"].run_turn(turn, Events())
    assert isinstance(outcome, Failed)
    assert outcome.code == "turn_timeout"


async def test_a_cancelled_turn_raises_cancelled_error(agents: dict[str, AgentRuntime]) -> None:
    events = Events()
    task = asyncio.create_task(agents["harper"].run_turn(a_turn(message="/sleep 60"), events))
    await events.until(Step)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_read_from_an_llm_agent_is_not_found(agents: dict[str, AgentRuntime]) -> None:
    with pytest.raises(NotFound):
        await agents["harper"].read(AgentRead(team="demo", agent="harper", method="prompts/get", params={}))
