"""Agents and a real downstream server over Streamable HTTP."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.real_parts import until
from tests.runtimes import DemoServer, Events, a_team, a_turn, text_of, wait_for

from pallas_contracts.errors import Superseded
from pallas_contracts.turns import ToolFailed, ToolProgress, ToolStarted
from pallas_hosting.folders import HostedTeam
from pallas_turns.runtime import AgentRuntime

SLOW = '/tool toolbox/long_task {"seconds": 60}'


@pytest.fixture
def harper(hosted: HostedTeam) -> AgentRuntime:
    return hosted.agents[0].runtime


async def test_a_tool_is_called_and_its_result_is_in_the_answer(harper: AgentRuntime) -> None:
    events = Events()
    assert text_of(await harper.run_turn(a_turn(message='/tool toolbox/add {"a": 2, "b": 3}'), events)) == "5"
    assert events.lines() == [
        "harper step 1 (llm)",
        "harper step 2 (tool)",
        "toolbox/add: started",
        "toolbox/add: completed",
        "harper step 3 (llm)",
    ]


async def test_progress_of_a_downstream_tool_is_passed_on(harper: AgentRuntime) -> None:
    events = Events()
    await harper.run_turn(a_turn(message='/tool long_task {"seconds": 0.2, "steps": 2}'), events)
    assert [(event.progress, event.total, event.message) for event in events.of(ToolProgress)] == [
        (1, 2, "step 1 of 2"),
        (2, 2, "step 2 of 2"),
    ]


async def test_a_tool_error_goes_to_the_model_and_the_turn_goes_on(harper: AgentRuntime) -> None:
    events = Events()
    message = '/tool toolbox/fail {"message": "no paper"}\n/say on'
    text = text_of(await harper.run_turn(a_turn(message=message), events))
    assert "no paper" in text
    assert text.endswith("on")
    assert [event.code for event in events.of(ToolFailed)] == ["tool_error"]


async def test_cancelling_a_turn_cancels_the_call_and_the_client_stays_usable(
    harper: AgentRuntime, demo_server: DemoServer
) -> None:
    events = Events()
    task = asyncio.create_task(harper.run_turn(a_turn(message=SLOW), events))
    await events.until(ToolStarted)
    await asyncio.to_thread(wait_for, lambda: demo_server.logged("long_task started") == 1, "not started")
    other = asyncio.create_task(harper.run_turn(a_turn(message='/tool long_task {"seconds": 0.5}'), Events()))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(wait_for, lambda: demo_server.logged("long_task cancelled") == 1, "not cancelled")
    assert text_of(await other) == "done after 4 steps"


async def test_the_turns_time_limit_cancels_the_call(harper: AgentRuntime, demo_server: DemoServer) -> None:
    await harper.run_turn(a_turn(message="/tool add"), Events())
    outcome = await harper.run_turn(a_turn(message=SLOW, remaining=2.0), Events())
    assert getattr(outcome, "code", None) == "turn_timeout"
    await asyncio.to_thread(wait_for, lambda: demo_server.logged("long_task cancelled") == 1, "not cancelled")


@pytest.mark.parametrize("calls", [SLOW, f"/parallel\n{SLOW}\n{SLOW}"])
async def test_a_superseded_attempt_calls_no_tool_and_ends_as_superseded(
    harper: AgentRuntime, demo_server: DemoServer, calls: str
) -> None:
    with pytest.raises(Superseded):
        await harper.run_turn(a_turn(message=calls), Events(superseded=True))
    assert demo_server.logged("long_task started") == 0


async def test_a_superseded_sub_agent_ends_the_whole_turn(harper: AgentRuntime, demo_server: DemoServer) -> None:
    message = '/tool research {"message": "/tool long_task"}'
    with pytest.raises(Superseded):
        await harper.run_turn(a_turn(message=message), Events(superseded=True))
    assert demo_server.logged("long_task started") == 0


async def test_twenty_concurrent_turns_share_one_client_and_get_their_own_results(
    harper: AgentRuntime, hosted: HostedTeam, caplog: pytest.LogCaptureFixture
) -> None:
    async def one(number: int) -> tuple[str, Events]:
        events = Events()
        message = f'/tool add {{"a": {number}, "b": 1000}}\n/tool long_task {{"seconds": 0.2, "steps": 1}}'
        return text_of(await harper.run_turn(a_turn(message=message), events)), events

    with caplog.at_level(logging.INFO, "agent_worker"):
        answers = await asyncio.gather(*(one(number) for number in range(20)))
    assert [text.split()[0] for text, _ in answers] == [f"{number + 1000}" for number in range(20)]
    assert [len(events.of(ToolProgress)) for _, events in answers] == [1] * 20
    assert caplog.messages.count("connected to downstream server") == 1


async def test_a_server_that_dies_during_a_call_fails_that_tool_and_is_reconnected(
    harper: AgentRuntime, demo_server: DemoServer
) -> None:
    events = Events()
    task = asyncio.create_task(harper.run_turn(a_turn(message=f"{SLOW}\n/say on"), events))
    await events.until(ToolStarted)
    await asyncio.to_thread(wait_for, lambda: demo_server.logged("long_task started") == 1, "not started")
    demo_server.kill()
    assert text_of(await task).endswith("on")
    assert [event.code for event in events.of(ToolFailed)] == ["unreachable"]

    events = Events()
    await harper.run_turn(a_turn(message="/tool toolbox/add"), events)
    assert [event.code for event in events.of(ToolFailed)] == ["unreachable"]

    await asyncio.to_thread(demo_server.start)
    assert text_of(await harper.run_turn(a_turn(message='/tool toolbox/add {"a": 1, "b": 2}'), Events())) == "3"


@pytest.mark.parametrize("end", [DemoServer.kill, DemoServer.hang], ids=["killed", "hangs"])
async def test_a_turn_without_its_downstream_server_runs_without_its_tools(
    harper: AgentRuntime,
    demo_server: DemoServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[DemoServer], None],
) -> None:
    monkeypatch.setattr("agent_worker.downstream.server.CONNECT_TIMEOUT", 1.0)
    end(demo_server)
    events = Events()
    text = text_of(await harper.run_turn(a_turn(message="/tool toolbox/add\n/say on"), events))
    assert text.endswith("on")
    assert "toolbox/add: failed" in events.lines()
    assert "agent runs without a server's tools" in caplog.messages
    assert demo_server.url not in caplog.text


async def team_of(folder: Path, server: DemoServer, further: str = "") -> HostedTeam:
    config = f"default_model: offline\nmcp:\n  servers:\n    toolbox:\n      url: {server.url}\n"
    agents = f"name: demo\nagents:\n  harper: {{servers: [toolbox]{further}}}\n"
    return await a_team(folder, {"agents.yaml": agents, "fastagent.config.yaml": config})


async def test_an_unreadable_image_is_a_text_for_the_model_and_the_turn_goes_on(
    tmp_path: Path, growing_server: DemoServer
) -> None:
    team = await team_of(tmp_path, growing_server, ", model_capabilities: {vision: true}")
    events = Events()
    text = text_of(await team.agents[0].runtime.run_turn(a_turn(message="/tool toolbox/smear\n/say on"), events))
    assert text == "[image/png]\non"
    assert events.of(ToolFailed) == []
    await team.shared.close()


async def test_later_turns_see_a_changed_list_of_tools(tmp_path: Path, growing_server: DemoServer) -> None:
    team = await team_of(tmp_path, growing_server)
    harper = team.agents[0].runtime

    async def answer(message: str) -> str:
        return text_of(await harper.run_turn(a_turn(message=message), Events()))

    async def grown() -> bool:
        return await answer("/tool toolbox/fresh") == "here I am"

    assert "failed" in await answer("/tool toolbox/fresh")
    assert await answer("/tool toolbox/grow") == "grown"
    await until(grown)
    await team.shared.close()


async def test_a_restarted_handshake_era_server_is_called_in_a_new_session(
    tmp_path: Path, legacy_server: DemoServer
) -> None:
    team = await team_of(tmp_path, legacy_server)
    harper = team.agents[0].runtime
    message = '/tool add {"a": 1, "b": 2}\n/tool long_task {"seconds": 0.1, "steps": 1}'
    events = Events()
    assert text_of(await harper.run_turn(a_turn(message=message), events)) == "3\n\ndone after 1 steps"
    assert [event.message for event in events.of(ToolProgress)] == ["step 1 of 1"]
    legacy_server.kill()
    await asyncio.to_thread(legacy_server.start)
    assert text_of(await harper.run_turn(a_turn(message=message), Events())) == "3\n\ndone after 1 steps"
    await team.shared.close()


async def test_many_calls_at_once_do_not_wait_for_a_free_connection(
    harper: AgentRuntime, demo_server: DemoServer
) -> None:
    calls = [f'/tool long_task {{"seconds": {seconds}, "steps": 1}}' for seconds in (0.6, 0.6)]
    running = [asyncio.create_task(harper.run_turn(a_turn(message=call), Events())) for call in calls]
    await asyncio.to_thread(wait_for, lambda: demo_server.logged("long_task started") == 2, "not started")
    many = [harper.run_turn(a_turn(message='/tool add {"a": 1, "b": 1}'), Events()) for _ in range(150)]
    assert {text_of(outcome) for outcome in await asyncio.gather(*many)} == {"2"}
    assert {text_of(outcome) for outcome in await asyncio.gather(*running)} == {"done after 1 steps"}
