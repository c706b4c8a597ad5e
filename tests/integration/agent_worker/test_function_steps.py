"""Steps of functions at real workers and a real downstream server: what was answered is not done again."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.integration.agent_worker.lab import Lab
from tests.integration.processes import a_service
from tests.runtimes import DemoServer, Events, a_team, a_turn, text_of
from tests.waiting import eventually, soon

from pallas_bus.streams import declare
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS
from pallas_contracts.turns import Claimed, Continued, ModelCalled, ToolFailed, ToolProgress, ToolStarted
from pallas_turns.feeds import follow_turns
from pallas_turns.queue import nak

AGENTS = """
  errand:
    kind: function
    module: errand.py
    servers: [toolbox]
    depends_on: [clerk]
  clerk:
    model: offline
"""
ERRAND = """
import asyncio
import json
from pathlib import Path

from agent_worker.functions import CallContext, FunctionAgent, JsonObject, StepFailed

agent = FunctionAgent()


async def note(file: Path, line: str) -> str:
    with file.open("a") as lines:
        lines.write(line + "\\n")
    return line


async def until_there(file: Path) -> None:
    while not file.exists():
        await asyncio.sleep(0.01)


@agent.tool("run", input_schema={"type": "object"})
async def run(ctx: CallContext, arguments: JsonObject) -> str:
    file = Path(arguments["file"])
    began = ctx.now()
    charged = await ctx.step("charge", note, file.with_suffix(".notes"), f"charged in attempt {ctx.turn.attempt}")
    worked = await ctx.call_tool("toolbox", "long_task", {"seconds": 0.02, "steps": 2})
    said = await ctx.call_agent("clerk", "/tool nobody\\n/say hello")
    ctx.progress(1, None, f"waiting in attempt {ctx.turn.attempt}")
    await ctx.step("wait", until_there, file, retry="safe")
    sent = await ctx.step("send", note, file.with_suffix(".notes"), f"sent in attempt {ctx.turn.attempt}")
    return f"{charged}, {worked['content'][0]['text']}, {said.splitlines()[-1]}, {sent}"


@agent.tool("tools")
async def tools(ctx: CallContext, arguments: JsonObject) -> str:
    added = await ctx.call_tool("toolbox", "add", {"a": 2, "b": 3})
    failed = await ctx.call_tool("toolbox", "fail", {"message": "no paper"})
    await ctx.call_tool("toolbox", "long_task", {"seconds": 0.02, "steps": 1})
    unreachable = []
    for server in ("nobody", "elsewhere"):
        try:
            await ctx.call_tool(server, "add", {})
        except StepFailed as error:
            unreachable.append(error.kind)
    return json.dumps([added, failed, unreachable])
"""


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path, demo_server: DemoServer) -> AsyncGenerator[Lab]:
    """A lab with an agent that uses the demo server and another agent, without a worker yet."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        lab = Lab(gateway, feeds, team, tmp_path / "team", stack)
        lab.describe(lambda text: text + AGENTS)
        (lab.folder / "errand.py").write_text(ERRAND)
        (lab.folder / "fastagent.config.yaml").write_text(
            f"mcp: {{servers: {{toolbox: {{url: {demo_server.url}}}}}}}\n"
        )
        yield lab


async def test_no_step_of_a_function_is_made_twice_when_its_worker_is_killed(
    lab: Lab, demo_server: DemoServer, tmp_path: Path
) -> None:
    file = lab.file()
    async with a_service("agent_worker", lab.bus_url, tmp_path, "doomed", teams=str(lab.folder)) as doomed:
        turn = await lab.ask("run", "errand", file=file)
        claimed = await turn.until(Claimed, within=30.0)
        await turn.until_waiting()
        await turn.until(ToolStarted)
        await lab.worker()
        doomed.process.kill()
        await doomed.process.wait()
    assert claimed.delivery is not None
    await nak(lab.bus, claimed.delivery)
    assert (await turn.until(Continued)).n == 5
    file.touch()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)
    assert turn.text == "charged in attempt 1, done after 2 steps, hello, sent in attempt 2"
    assert file.with_suffix(".notes").read_text() == "charged in attempt 1\nsent in attempt 2\n"
    assert demo_server.logged("long_task started") == 1
    assert len([message for message in turn.messages if isinstance(message, ModelCalled)]) == 2


async def test_a_worker_that_drains_gives_a_function_back_between_its_steps(
    lab: Lab, demo_server: DemoServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pallas_executor")
    file, first = lab.file(), await lab.worker()
    turn = await lab.ask("run", "errand", file=file)
    await turn.until_waiting()
    await turn.until(ToolStarted)
    draining = asyncio.create_task(first.drain())
    second = await lab.worker()
    await eventually(lambda: first.running.draining)
    file.touch()
    await soon(draining)
    assert (await turn.claimed(2)).worker == second.decoding.turns.worker
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)
    assert file.with_suffix(".notes").read_text() == "charged in attempt 1\nsent in attempt 2\n"
    assert demo_server.logged("long_task started") == 1
    levels = {line.levelname for line in caplog.records if line.message in ("handed back", "a further attempt started")}
    assert levels == {"INFO"}, "nothing was lost, so nobody is warned"


async def test_a_function_gets_the_result_of_a_tool_as_mcp_has_it(tmp_path: Path, demo_server: DemoServer) -> None:
    nowhere = DemoServer(tmp_path / "nowhere.log")
    config = f"mcp: {{servers: {{toolbox: {{url: {demo_server.url}}}, elsewhere: {{url: {nowhere.url}}}}}}}\n"
    agents = f"name: demo\nagents:{AGENTS.replace('[toolbox]', '[toolbox, elsewhere]')}"
    team = await a_team(tmp_path, {"agents.yaml": agents, "fastagent.config.yaml": config, "errand.py": ERRAND})
    events = Events()
    try:
        (errand,) = (hosted for hosted in team.agents if hosted.definition.agent == "errand")
        text = text_of(await errand.runtime.run_turn(a_turn("errand", "tools"), events))
    finally:
        await team.shared.close()
    assert [it.name for it in errand.definition.dependencies] == ["toolbox", "elsewhere"]
    assert errand.definition.agents == ("clerk",)
    added = {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": "5"}, "isError": False}
    refused = [{"type": "text", "text": "Error executing tool fail: no paper"}]
    assert json.loads(text) == [added, {"content": refused, "isError": True}, ["unknown_server", "unreachable"]]
    assert [(event.call, event.message) for event in events.of(ToolProgress)] == [("3", "step 1 of 1")]
    failed = [("2", "tool_error"), ("4", "unknown_server"), ("5", "unreachable")]
    assert [(event.call, event.code) for event in events.of(ToolFailed)] == failed
