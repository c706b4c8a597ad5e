"""Agents are added, changed and removed while everything runs: which clients notice it, and how soon."""

import time
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest
from tests.e2e.calls import call
from tests.e2e.lab import Era, Lab
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
