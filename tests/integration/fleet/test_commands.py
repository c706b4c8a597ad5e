"""`pallas fleet` at a gateway, a fleet and the stand-in for Coder."""

import asyncio
import json
from collections.abc import AsyncGenerator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from tests.embedded import NatsServer
from tests.integration.fleet.lab import Lab
from tests.integration.pallas_command import Pallas
from tests.integration.real_parts import a_gateway, until

from pallas_bus.transport.access import Access
from pallas_cli.fleet.calls import FleetRefused, fleet_at
from pallas_cli.fleet.watch import Watch
from pallas_demo.coder import Fault


@pytest.fixture
async def pallas(lab: Lab, tmp_path: Path) -> AsyncGenerator[Pallas]:
    """The command, with a gateway in front of a replica."""
    await lab.replica()
    async with a_gateway(lab.nats_url) as front:
        command = Pallas({"PALLAS_GATEWAY_URL": front.base}, tmp_path)

        async def answers() -> bool:
            return (await command("fleet", "list")).code == 0

        await until(answers)
        yield command


async def test_an_agent_from_its_creation_to_its_end(lab: Lab, pallas: Pallas) -> None:
    assert (await pallas.done("fleet", "list")).out == "no coding agents\n"
    made = await pallas.done("fleet", "create", "papi", "--project", "setup", "--spec", "say I am papi")
    assert made.out == "Agent 'papi' created successfully\n"
    assert {line.partition(": ")[0] for line in made.err.splitlines()} == {"The workspace of papi"}
    await lab.idle("papi")
    assert (await pallas.done("fleet", "list")).rows == [["papi", "idle", "-"]]
    shown = (await pallas.done("fleet", "show", "PAPI")).out.splitlines()
    assert shown[:3] == ["papi: idle", "  role: coder", "  project: Setup"]
    assert shown[-2:] == ["  spec:", "    say I am papi"]
    started = await pallas.done("fleet", "start", "papi", "work 60 s")
    assert started.out.startswith("Task started on agent 'papi': ")
    [refusal] = await pallas.refused("fleet", "start", "papi", "another")
    assert refusal.startswith("pallas: Agent 'papi' ")
    assert refusal.endswith("(409)")
    again = await pallas("fleet", "start", "papi", "another", "--json")
    assert (again.code, again.error["code"], again.error["details"]["status"]) == (1, "conflict", 409)
    assert (await pallas.done("fleet", "stop", "papi")).out == "Task stopped successfully: work 60 s\n"
    tasks = (await pallas.done("fleet", "history", "papi", "--json")).json["tasks"]
    assert [(task["status"], task["summary"]) for task in tasks] == [
        ("stopped", "work 60 s"),
        ("completed", "say I am papi"),
    ]
    first = await pallas.done("fleet", "history", "papi", "--limit", "1")
    assert (len(first.rows), first.err) == (1, f"more: --after {tasks[0]['id']}\n")
    rest = await pallas.done("fleet", "history", "papi", "--limit", "1", "--after", tasks[0]["id"], "--json")
    assert (rest.json, rest.err) == ({"tasks": tasks[1:], "total_count": 2}, "")
    await pallas.refused("fleet", "delete", "papi", code=2)
    deleted = await pallas.done("fleet", "delete", "papi", "--yes")
    assert deleted.out == "Agent 'papi' deleted successfully\n"
    assert {line.partition(": ")[0] for line in deleted.err.splitlines()} <= {"Deleting the workspace of papi"}


async def test_projects_and_roles_are_tables(pallas: Pallas) -> None:
    rows = (await pallas.done("fleet", "projects")).rows
    assert [row[0] for row in rows] == ["Broken", "DataOne", "Plain", "Setup"]
    assert [row[0] for row in (await pallas.done("fleet", "roles", "Setup")).rows] == ["coder", "operator", "manager"]


async def test_refusals_are_sentences(lab: Lab, pallas: Pallas, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await pallas.refused("fleet", "show", "nobody") == ["pallas: Agent 'nobody' does not exist. (404)"]
    [bad] = await pallas.refused("fleet", "create", "a b", "--project", "Setup", "--spec", "x")
    assert bad.endswith("(400)")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"say \xff")))
    [text] = await pallas.refused("fleet", "start", "nobody", "-", code=2)
    assert text == "pallas: standard input is not UTF-8 text"
    await lab.coder.fault(Fault(mode="bad_gateway"))
    [away] = await pallas.refused("fleet", "projects")
    assert away.endswith("(503)")
    [gone] = await pallas.refused("fleet", "list", "--url", "http://127.0.0.1:9", code=3)
    assert "http://127.0.0.1:9 cannot be reached" in gone


async def test_a_gateway_without_a_fleet_says_so(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "nats") as broker:
        async with a_gateway(broker.url) as front:
            command = Pallas({"PALLAS_GATEWAY_URL": front.base}, tmp_path)
            [refusal] = await command.refused("fleet", "list")
            assert refusal == f"pallas: the gateway at {front.base} has no fleet"


async def test_watch_prints_statuses_and_what_agents_write(
    lab: Lab, pallas: Pallas, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = list[dict[str, str]]()

    async def until_printed(wanted: dict[str, str]) -> None:
        async def look() -> bool:
            printed.extend(json.loads(line) for line in capsys.readouterr().out.splitlines())
            return any(wanted.items() <= each.items() for each in printed)

        await until(look, 30)

    await lab.create("papi")
    async with fleet_at(pallas.environ["PALLAS_GATEWAY_URL"], None) as fleet:
        with pytest.raises(FleetRefused, match="does not exist"):
            await Watch(fleet, "nobody", as_json=True).run(lambda: Access(lab.nats_url))
        watching = asyncio.create_task(Watch(fleet, "PAPI", as_json=True).run(lambda: Access(lab.nats_url)))
        await until_printed({"agent": "papi", "status": "idle"})
        task = await lab.call("start_agent_task", agent_name="papi", task_description="work 1 s; say good; work 60 s")
        await until_printed({"agent": "papi", "status": "busy", "current_task": task["task"]["summary"]})
        await until_printed({"agent": "papi", "line": "good"})
        assert "hello" not in {each.get("line") for each in printed}  # is of the task before
        await lab.call("delete_agent", agent_name="papi")
        await until_printed({"agent": "papi", "status": "deleted"})
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
