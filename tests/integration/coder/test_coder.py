"""The stand-in for Coder: workspaces really run agents, tasks in both generations, and what Coder refuses."""

import asyncio
import json
import socket
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.coder.conftest import SETTINGS
from tests.waiting import eventually, soon
from websockets import InvalidStatus, connect

from pallas_demo.coder import CoderStandIn, StandInSettings

TEMPLATES = {"Setup": "coder-devcontainer", "DataOne": "coder-dataone-devcontainer", "Broken": "always-fails"}
APP = "/@me/papi.main/apps/ccw"


async def create(
    client: httpx.AsyncClient, name: str, spec: str = "", project: str = "Setup", **extra: Any
) -> httpx.Response:
    """Ask for a workspace."""
    found = (await client.get(f"/api/v2/organizations/coder/templates/{TEMPLATES[project]}")).json()
    values = [{"name": "AI Prompt", "value": spec}] if spec else []
    body = {"name": name, "template_id": found["id"], "rich_parameter_values": values + extra.pop("values", [])}
    return await client.post("/api/v2/users/me/workspaces", json=body | extra)


async def build(client: httpx.AsyncClient, coder: CoderStandIn, name: str, transition: str, state: str) -> None:
    """Start, stop or delete a workspace, and wait until it is."""
    agent = coder.agent(name)
    answer = await client.post(f"/api/v2/workspaces/{agent.workspace.id}/builds", json={"transition": transition})
    assert answer.status_code == 201
    await agent.until(state)


async def test_the_spec_is_the_first_prompt_and_a_task_the_next(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    made = (await create(client, "papi", "write plan.md: first")).json()
    assert (made["latest_build"]["status"], made["latest_build"]["job"]["status"]) == ("pending", "pending")
    papi = coder.agent("PAPI")
    await papi.until("stable")
    assert (papi.folder / "plan.md").read_text() == "first\n"
    task = f"/api/v2/tasks/me/{made['task_id']}"
    assert (await client.post(f"{task}/send", json={"input": "report busy; work 0.3 s"})).status_code == 204
    busy = await client.post(f"{task}/send", json={"input": "too early"})
    assert (busy.status_code, busy.json()["message"]) == (502, "Task app is not ready to accept input.")
    await papi.until("stable")
    assert papi.prompts == ["write plan.md: first", "report busy; work 0.3 s"]
    seen = (await client.get("/api/v2/tasks/me/papi")).json()
    assert (seen["id"], seen["status"], seen["current_state"]["state"]) == (made["task_id"], "active", "idle")
    older = (await client.get(f"/api/experimental/tasks/owner/{made['id']}")).json()
    assert (older["id"], older["status"], older["initial_prompt"]) == (made["id"], "running", "write plan.md: first")
    logs = (await client.get(f"{task}/logs")).json()["logs"]
    assert [one["type"] for one in logs] == ["output", "input", "output", "input"] + ["output"] * (len(logs) - 4)
    agents = (await client.get("/api/v2/workspaces")).json()["workspaces"][0]["latest_build"]["resources"][0]["agents"]
    [app] = [one for one in agents[0]["apps"] if one["slug"] == "ccw"]
    assert (app["health"], agents[0]["lifecycle_state"]) == ("healthy", "ready")
    assert "busy" in [one["message"] for one in app["statuses"]]


async def test_a_question_waits_for_the_user_and_a_pull_request_is_metadata(
    coder: CoderStandIn, client: httpx.AsyncClient
) -> None:
    await create(client, "papi", "pr https://example.com/1 open passing; ask Which colour?")
    await coder.agent("papi").until("stable")
    found = (await client.get("/api/v2/users/me/workspace/papi")).json()
    assert found["latest_app_status"]["needs_user_attention"]
    assert (found["latest_app_status"]["state"], found["latest_app_status"]["message"]) == ("idle", "Which colour?")
    agent = found["latest_build"]["resources"][0]["agents"][0]["id"]
    async with client.stream("GET", f"/api/v2/workspaceagents/{agent}/watch-metadata") as stream:
        data = await soon(anext(line async for line in stream.aiter_lines() if line.startswith("data: ")))
    values = {one["description"]["key"]: one["result"]["value"] for one in json.loads(data[6:])}
    assert values["8_pull_request_url"] == "https://example.com/1"
    assert values["10_pull_request_check_status"] == "passing"
    assert values["11_agent_spec"].startswith("pr https")


async def test_stop_start_and_delete(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    made = (await create(client, "papi", "say hello")).json()
    assert (
        await client.post(f"/api/v2/workspaces/{made['id']}/builds", json={"transition": "stop"})
    ).status_code == 409
    papi = coder.agent("papi")
    await papi.until("stable")
    process = papi.terminal
    await build(client, coder, "papi", "stop", "stopped")
    assert process.exit_code == -9
    assert (await client.get(f"{APP}/status")).status_code == 502
    assert (await client.get("/api/v2/tasks/me/papi")).json()["status"] == "paused"
    await build(client, coder, "papi", "start", "stable")
    assert papi.prompts == ["say hello"]
    await build(client, coder, "papi", "delete", "deleted")
    assert (await client.get(f"/api/v2/workspaces/{made['id']}")).status_code == 410
    assert (await client.get("/api/v2/workspaces")).json() == {"workspaces": [], "count": 0}
    assert not papi.folder.exists()
    assert (await create(client, "papi")).status_code == 201


async def test_what_coder_refuses(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    assert (await create(client, "papi")).status_code == 201
    taken = await create(client, "Papi")
    assert taken.status_code == 409
    assert taken.json()["validations"][0]["field"] == "name"
    for name in ("new", "a--b", "-a", "a" * 33, "a b", ""):
        assert (await create(client, name)).json()["message"] == "Validation failed."
    wrong = await create(client, "b", project="DataOne", values=[{"name": "role", "value": "pirate"}])
    assert (wrong.status_code, wrong.json()["validations"][0]["field"]) == (400, "role")
    await create(client, "broken", project="Broken")
    await coder.agent("broken").until("failed")
    job = (await client.get("/api/v2/users/me/workspace/broken")).json()["latest_build"]["job"]
    assert (job["status"], job["error"]) == ("failed", "terraform apply: exit status 1")
    for headers, why in (({}, "must be provided"), ({"Coder-Session-Token": "x"}, "invalid")):
        async with httpx.AsyncClient(base_url=coder.url, headers=headers, trust_env=False) as stranger:
            answer = await stranger.get("/api/v2/workspaces")
            assert answer.status_code == 401
            assert why in answer.json()["detail"]
            assert (await stranger.get(f"{APP}/status")).status_code == 303
    for path, status in (
        ("/api/v2/workspaces/00000000-0000-0000-0000-000000000000", 404),
        ("/api/v2/workspaces?q=colour:red", 400),
        ("/api/v2/workspaces?limit=-1", 400),
        ("/@me/papi.main/apps/other/status", 404),
        ("/api/v2/none", 404),
    ):
        assert (await client.get(path)).status_code == status


@pytest.mark.parametrize(
    ("coder", "served"),
    [
        (StandInSettings(generation="v2"), {"v2"}),
        (StandInSettings(generation="experimental"), {"experimental"}),
        (StandInSettings(generation="none"), set[str]()),
    ],
    indirect=["coder"],
)
async def test_a_setting_picks_the_generation_of_tasks(client: httpx.AsyncClient, served: set[str]) -> None:
    for generation in ("v2", "experimental"):
        answer = await client.get(f"/api/{generation}/tasks")
        assert answer.status_code == (200 if generation in served else 404)


async def test_workspaces_are_listed_in_pages(client: httpx.AsyncClient) -> None:
    for name in ("a1", "a2", "b1"):
        await create(client, name, project="Broken")
    page = (await client.get("/api/v2/workspaces", params={"q": "owner:me", "limit": 2, "offset": 1})).json()
    assert ([one["name"] for one in page["workspaces"]], page["count"]) == (["a2", "b1"], 3)
    assert (await client.get("/api/v2/workspaces", params={"q": "name:a"})).json()["count"] == 2


@pytest.mark.parametrize("coder", [replace(SETTINGS, wildcard="*.apps.localhost")], indirect=True)
async def test_apps_have_host_names_below_the_wildcard(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    await create(client, "papi")
    await coder.agent("papi").until("stable")
    host = "ccw--main--papi--owner.apps.localhost"
    refused = await client.get("/status", headers={"Host": host})
    assert (refused.status_code, refused.text[:19]) == (400, "Invalid host header")
    assert (await client.get("/api/v2/applications/host")).json() == {"host": "*.apps.localhost"}


async def test_a_file_keeps_workspaces_over_a_restart(tmp_path: Path) -> None:
    settings = replace(SETTINGS, state=tmp_path / "state.json", folder=tmp_path / "workspaces")
    headers = {"Coder-Session-Token": settings.token}
    for state in ("stable", "stopped"):
        async with (
            CoderStandIn(settings) as coder,
            httpx.AsyncClient(base_url=coder.url, headers=headers, trust_env=False) as client,
        ):
            if state == "stable":
                await create(client, "papi", "write a.txt: kept")
            await coder.agent("papi").until(state)
            if state == "stopped":
                await build(client, coder, "papi", "start", "stable")
                assert (coder.agent("papi").folder / "a.txt").read_text() == "kept\n"
                assert coder.agent("papi").prompts == ["write a.txt: kept"]
    async with CoderStandIn(replace(settings, resume=True)) as coder:
        await coder.agent("papi").until("stable")
        assert coder.agent("papi").prompts == ["write a.txt: kept"]
    assert settings.token not in (tmp_path / "state.json").read_text()


async def test_a_program_that_crashed_is_unhealthy(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    await create(client, "papi", "crash")
    await coder.agent("papi").until("exited")
    assert (await client.get(f"{APP}/status")).status_code == 502
    assert (await client.get("/api/v2/tasks/me/papi")).json()["status"] == "error"


async def test_programs_end_with_the_stand_in() -> None:
    async with CoderStandIn(replace(SETTINGS, program=("sh", "-c", "echo on; sleep 300 & read line"))) as coder:
        headers = {"Coder-Session-Token": coder.token}
        async with httpx.AsyncClient(base_url=coder.url, headers=headers, trust_env=False) as client:
            await create(client, "papi")
        await coder.agent("papi").until("stable")
        folder = coder.agent("papi").folder
        assert running_in(folder)
    await eventually(lambda: not running_in(folder))


def running_in(folder: Path) -> list[Path]:
    """Processes whose working folder this is or was."""
    return [one for one in Path("/proc").glob("[0-9]*/cwd") if _leads_to(one).startswith(str(folder))]


def _leads_to(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


async def test_many_agents_work_at_once(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    names = [f"a{number}" for number in range(12)]
    await asyncio.gather(*(create(client, name, f"write a.txt: {name}; work 0.2 s") for name in names))
    for name in names:
        await coder.agent(name).until("stable", seconds=30)
        assert (coder.agent(name).folder / "a.txt").read_text() == f"{name}\n"


async def test_metadata_comes_over_a_websocket_too(coder: CoderStandIn, client: httpx.AsyncClient) -> None:
    await create(client, "papi", "say hello")
    await coder.agent("papi").until("stable")
    agent = coder.agent("papi").workspace.agent
    url = f"{coder.url.replace('http', 'ws')}/api/v2/workspaceagents/{agent}/watch-metadata-ws"
    async with connect(url, additional_headers={"Coder-Session-Token": coder.token}) as socket:
        event = json.loads(await soon(socket.recv()))
    assert event["type"] == "data"
    assert {one["description"]["key"] for one in event["data"]} >= {"8_pull_request_url", "11_agent_spec"}
    with pytest.raises(InvalidStatus):
        await connect(url)


async def test_a_client_that_is_gone_is_sent_no_further_events(
    coder: CoderStandIn, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await create(client, "papi", "say hello")
    papi = coder.agent("papi")
    await papi.until("stable")
    papi.terminal.messages += [papi.terminal.messages[-1]] * 30
    address = httpx.URL(coder.url)
    lines = (f"GET {APP}/events HTTP/1.1", f"Host: {address.netloc.decode()}", f"Coder-Session-Token: {coder.token}")
    with socket.create_connection((address.host, address.port)) as gone:
        gone.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert (await client.get(f"{APP}/status")).json()["status"] == "stable"
    assert not caplog.messages
