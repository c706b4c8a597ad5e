"""Agents are added, changed and removed while everything runs: which clients notice it, and how soon."""

import asyncio
import time
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from mcp.client.subscriptions import PromptsListChanged, ToolsListChanged
from tests.e2e.calls import call
from tests.e2e.lab import Era, Lab
from tests.e2e.test_health import health_of
from tests.e2e.turns import Turns
from tests.requirements import requirement
from tests.waiting import eventually, soon, within

from pallas_bus import kv
from pallas_contracts.catalog import AGENTS

pytestmark = pytest.mark.one_era

CATALOGUE = "/teams/live/.well-known/mcp/server.json"
GUEST = """
  guest:
    title: Guest
    description: Stays for a while
"""
ANOTHER_TOOL = '''

@agent.tool("find", "Finds a paper")
async def find(ctx: CallContext, arguments: JsonObject) -> str:
    """Say that it is there."""
    return "found"
'''


@pytest.fixture(autouse=True)
def edited(lab: Lab) -> Generator[Path]:
    """The folder of the team `live`, which is restored after the test."""
    folder = lab.teams / "live"
    before = {name: (folder / name).read_text() for name in ("agents.yaml", "clerk.py")}
    yield folder
    for name, text in before.items():
        (folder / name).write_text(text)
    wait = time.monotonic() + 20
    while "local.live/pallas-guest" in listed(lab) and time.monotonic() < wait:
        time.sleep(0.05)


def listed(lab: Lab) -> set[str]:
    """The names in the team's catalogue."""
    return {entry["server"]["name"] for entry in httpx.get(lab.registry + CATALOGUE, verify=False).json()["servers"]}


def status(lab: Lab, replica: int) -> int:
    """The status of a GET of the guest's URL: 405 if it is served, else 404."""
    return httpx.get(lab.url("guest", "live", replica=replica), verify=False).status_code


@requirement("P-1.17")
async def test_an_added_agent_is_listed_and_served_at_once_until_it_is_removed(
    lab: Lab, turns: Turns, edited: Path, era: Era
) -> None:
    agents = edited / "agents.yaml"
    before = agents.read_text()
    async with kv.watch(turns.bus, AGENTS) as known:
        await soon(known.synced.wait())
        assert status(lab, 0) == 404
        agents.write_text(before + GUEST)
        await eventually(lambda: "live.guest" in known)
        async with within(1.0):
            await eventually(lambda: "local.live/pallas-guest" in listed(lab))
            await eventually(lambda: {status(lab, 0), status(lab, 1)} == {405})
        async with lab.client("guest", era, team="live") as client:
            assert (await call(client, "guest", "/say I am here")).text == "I am here"
        agents.write_text(before)
        await eventually(lambda: "live.guest" not in known)
        async with within(1.0):
            await eventually(lambda: "local.live/pallas-guest" not in listed(lab))
            await eventually(lambda: {status(lab, 0), status(lab, 1)} == {404})


async def test_a_changed_agent_is_served_with_its_new_descriptions(lab: Lab, edited: Path, era: Era) -> None:
    agents = edited / "agents.yaml"
    words = f"Was changed for {era}"
    agents.write_text(agents.read_text().replace("Is always there", words))
    async with asyncio.timeout(10):
        while True:
            async with lab.client("host", era, team="live", replica=1) as client:
                [tool, _] = (await client.list_tools()).tools
            if tool.description == words:
                break


async def test_listening_clients_are_notified_of_changed_tools(lab: Lab, edited: Path) -> None:
    clerk = edited / "clerk.py"
    async with lab.client("clerk", team="live") as client:
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        async with client.listen(tools_list_changed=True) as changes:
            clerk.write_text(clerk.read_text() + ANOTHER_TOOL)
            assert isinstance(await soon(anext(aiter(changes)), 20), ToolsListChanged)
            tools = await client.list_tools(cache_mode="refresh")
        assert [tool.name for tool in tools.tools] == ["file", "find", "get_health"]
        async with asyncio.timeout(10):
            while (answer := await call(client, "find", "")).text != "found":
                pass
        assert not answer.result.is_error


async def test_listening_clients_are_notified_when_an_agents_description_changes(lab: Lab, edited: Path) -> None:
    agents = edited / "agents.yaml"
    async with (
        lab.client("host", team="live") as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True) as changes,
    ):
        agents.write_text(agents.read_text().replace("Is always there", "Speaks up").replace("title: Host", "title: A"))
        events = [event async for event in changes]
    assert {type(event) for event in events} == {ToolsListChanged, PromptsListChanged}


async def test_an_invalid_change_of_a_folder_changes_nothing(lab: Lab, edited: Path) -> None:
    (edited / "agents.yaml").write_text("name: live\nagents: {host: {colour: red}}\n")
    await eventually(lambda: "the changed folder is not accepted" in lab.logs("agent-worker"))
    async with lab.client("host", team="live") as client:
        assert (await call(client, "host", "/say still here")).text == "still here"


@requirement("P-3.16", "P-3.7")
async def test_an_agent_that_cannot_start_reports_the_reason_and_others_go_on(lab: Lab, edited: Path, era: Era) -> None:
    (edited / "clerk.py").write_text("raise RuntimeError('no paper')\n")
    async with lab.client("clerk", era, team="live") as client, lab.client("host", era, team="live") as other:

        async def until_error() -> dict[str, str]:
            while (health := await health_of(client))["status"] != "error":  # noqa: ASYNC110 - it is polled
                await asyncio.sleep(0.05)
            return health

        assert "failed to start" in (await soon(until_error(), 20))["message"]
        assert (await call(other, "host", "/say not me")).text == "not me"
