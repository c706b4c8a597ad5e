"""The server for whose tools the fleet's contract was written, unmodified, on our stand-in for Coder."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.bench.fleet.run import peer
from tests.integration.real_parts import until
from tests.requirements import requirement

from pallas_demo.coder import CoderStandIn, StandInSettings, TerminalSettings

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def coder() -> AsyncGenerator[CoderStandIn]:
    async with CoderStandIn(
        StandInSettings(build_seconds=0.05, terminal=TerminalSettings(stable_after=0.25))
    ) as running:
        yield running


@requirement("F-common-8")
async def test_each_of_its_tools_works_on_the_stand_in(coder: CoderStandIn, tmp_path: Path) -> None:
    with peer(tmp_path, coder.url, coder.token) as process:
        async with Client(f"http://127.0.0.1:{process.port}/mcp") as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                answer = await client.call_tool(tool, arguments)
                text: str = getattr(answer.content[0], "text", "")
                assert not answer.is_error, (tool, text)
                print(tool, json.dumps(arguments), text)
                return json.loads(text)

            projects = await call("list_agent_projects")
            assert "Setup" in [project["name"] for project in projects["projects"]]
            roles = await call("list_agent_roles", project="Setup")
            assert [role["name"] for role in roles["roles"]] == ["Coder", "Operator", "Manager"]
            made = await call("create_agent", name="papi", project="Setup", task="say hello", role="coder")
            assert made["agent"]["name"] == "papi"
            await coder.agent("papi").until("stable")

            async def idle() -> bool:
                agents = (await call("list_agents"))["agents"]
                return [agent["status"] for agent in agents] == ["idle"]

            await until(idle)
            await call("start_agent_task", agent_name="papi", task_description="work 60 s")
            await coder.agent("papi").until("running")
            assert coder.agent("papi").prompts == ["say hello", "work 60 s"]
            assert (await call("show_agent", agent_name="papi"))["agent"]["status"] == "busy"
            await call("cancel_agent_task", agent_name="papi")
            await coder.agent("papi").until("stable")
            assert (await call("show_agent_task_history", agent_name="papi"))["tasks"]
            assert (await call("show_agent_log", agent_name="papi"))["logs"]
            await call("delete_agent", agent_name="papi")
            await coder.agent("papi").until("deleted")
