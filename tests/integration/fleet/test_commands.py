"""`pallas call fleet/fleet` at a gateway, a fleet and the stand-in for Coder."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from tests.integration.fleet.lab import QUICK, Lab
from tests.integration.pallas_command import Pallas
from tests.integration.real_parts import a_gateway, until

from pallas_demo.coder import CoderStandIn, Fault, StandInSettings

FLEET = ("call", "fleet/fleet")


@pytest.fixture
async def lab(lab: Lab) -> AsyncGenerator[Lab]:
    """A lab whose builds take long enough for a line of progress."""
    async with CoderStandIn(StandInSettings(build_seconds=1.5, terminal=QUICK)) as coder:
        yield replace(lab, coder=coder, replicas=[])


@pytest.fixture
async def pallas(lab: Lab, tmp_path: Path) -> AsyncGenerator[Pallas]:
    """The command, with a gateway in front of a replica."""
    await lab.replica()
    async with a_gateway(lab.nats_url) as front:
        command = Pallas({"PALLAS_GATEWAY_URL": front.base}, tmp_path)

        async def answers() -> bool:
            return (await command(*FLEET, "list_agents")).code == 0

        await until(answers)
        yield command


async def test_an_agent_from_its_creation_to_its_end(lab: Lab, pallas: Pallas) -> None:
    assert (await pallas.done(*FLEET, "list_agents")).out == "agents: -\ntotal_count: 0\n"
    made = await pallas.done(*FLEET, "create_agent", "--name", "papi", "--project", "setup", "--spec", "say I am papi")
    assert "message: Agent 'papi' created successfully\n" in made.out
    assert "The workspace of papi" in {line.partition(": ")[0] for line in made.err.splitlines()}
    await lab.idle("papi")
    assert (await pallas.done(*FLEET, "list_agents")).rows[0][:2] == ["papi", "idle"]
    shown = (await pallas.done(*FLEET, "show_agent", "--agent-name", "PAPI")).out.splitlines()
    assert {"  name: papi", "  role: coder", "  project: Setup", "  spec: say I am papi"} <= set(shown)
    start = (*FLEET, "start_agent_task", "--agent-name", "papi", "--task-description")
    assert (await pallas.done(*start, "work 60 s", "--json")).json["task"]["summary"] == "work 60 s"
    [*_, refusal] = (await pallas(*start, "another")).err.splitlines()
    assert refusal.startswith("pallas: Agent 'papi' ")
    assert refusal.endswith("(409)")
    again = await pallas(*start, "another", "--json")
    error = json.loads(again.err.splitlines()[-1])
    assert (again.code, error["code"], error["details"]["status"]) == (1, "conflict", 409)
    stopped = await pallas.done(*FLEET, "stop_agent_task", '{"agent_name": "papi"}', "--yes")
    assert "message: Task stopped successfully\n" in stopped.out
    history = await pallas.done(*FLEET, "show_agent_task_history", "--agent-name", "papi", "--page-size", "1", "--json")
    assert (history.json["total_count"], history.json["tasks"][0]["status"]) == (2, "stopped")
    [question] = await pallas.refused(*FLEET, "delete_agent", "--agent-name", "papi", code=2)
    assert question.startswith("pallas: to confirm that delete_agent may change or delete what is there, pass --yes")
    deleted = await pallas.done(*FLEET, "delete_agent", "--agent-name", "papi", "--yes")
    assert "message: Agent 'papi' deleted successfully\n" in deleted.out


async def test_tools_and_their_options_are_those_of_the_agent(pallas: Pallas) -> None:
    tools = {row[0]: row[1] for row in (await pallas.done(*FLEET)).rows}
    assert tools["show_agent"] == "agent_name"
    usage = (await pallas.done(*FLEET, "create_agent", "--help")).out
    assert usage.startswith("Usage: pallas call fleet/fleet create_agent [OPTIONS]\n")
    assert "--project <str>" in usage
    rows = (await pallas.done(*FLEET, "list_agent_projects")).rows
    assert [row[0] for row in rows] == ["Broken", "DataOne", "Plain", "Setup"]
    roles = (await pallas.done(*FLEET, "list_agent_roles", "--project", "Setup")).rows
    assert [row[0] for row in roles] == ["coder", "operator", "manager"]


async def test_refusals_are_sentences(lab: Lab, pallas: Pallas, monkeypatch: pytest.MonkeyPatch) -> None:
    show = (*FLEET, "show_agent", "--agent-name", "nobody")
    assert (await pallas.refused(*show))[-1] == "pallas: Agent 'nobody' does not exist. (404)"
    [*_, bad] = await pallas.refused(*FLEET, "create_agent", "--name", "a b", "--project", "Setup", "--spec", "x")
    assert bad.endswith("(400)")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"say \xff")))
    start = (*FLEET, "start_agent_task", "--agent-name", "nobody", "--task-description", "-")
    assert await pallas.refused(*start, code=2) == ["pallas: standard input is not UTF-8 text"]
    assert (await pallas.refused(*FLEET, "show_agents"))[0].startswith(
        "pallas: there is no tool 'show_agents'; did you mean 'show_agent' or 'list_agents'"
    )
    [unknown] = await pallas.refused("call", "fleet/flet", "list_agents")
    assert unknown.startswith("pallas: there is no agent 'fleet/flet'")
    await lab.coder.fault(Fault(mode="bad_gateway"))
    [*_, away] = await pallas.refused(*FLEET, "list_agent_projects")
    assert away.endswith("(503)")
    [gone] = await pallas.refused("call", "--url", "http://127.0.0.1:9", *FLEET[1:], code=3)
    assert "could not be reached" in gone or "cannot be reached" in gone
