"""The catalogue by which callers discover agents: its form, and that it is correct."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import jsonschema
from mcp import Client
from tests.e2e.lab import Lab
from tests.requirements import requirement

WELL_KNOWN = "/.well-known/mcp/server.json"
SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "server-2025-12-11.schema.json").read_text("utf-8")
)
OFFICIAL = "io.modelcontextprotocol.registry/official"


def catalogue(lab: Lab, path: str = WELL_KNOWN) -> dict[str, dict[str, Any]]:
    """The entries by the server's name."""
    answer = httpx.get(lab.registry + path)
    assert answer.status_code == 200
    return {entry["server"]["name"]: entry for entry in answer.json()["servers"]}


@requirement("P-1.1", "P-1.2", "P-1.3", "P-1.4", "P-1.19", "P-4.1")
def test_one_get_lists_every_agent_of_every_team(lab: Lab) -> None:
    answer = httpx.get(lab.registry + WELL_KNOWN)
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"servers"}
    names = set(catalogue(lab))
    lab_agents = ("plain", "seer", "chief", "reader", "maker", "narrow", "hasty", "brief", "small", "sturdy", "frail")
    assert {f"local.lab/pallas-{agent}" for agent in lab_agents} <= names
    assert {"local.live/pallas-host", "local.live/pallas-clerk"} <= names
    assert lab.registry not in lab.stack.ready()["gateways"]


@requirement("P-4.1")
def test_each_team_has_its_own_catalogue(lab: Lab) -> None:
    assert set(catalogue(lab, f"/teams/live{WELL_KNOWN}")) == {"local.live/pallas-host", "local.live/pallas-clerk"}
    assert httpx.get(f"{lab.registry}/teams/nobody{WELL_KNOWN}").status_code == 404


@requirement("P-1.5", "P-1.6", "P-1.7", "P-1.8", "P-1.16")
def test_every_entry_fits_the_published_schema(lab: Lab) -> None:
    validator: Any = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
    for name, entry in catalogue(lab).items():
        assert [fault.message for fault in validator.iter_errors(entry["server"])] == [], name
        assert entry["server"]["title"]
        assert "\n" not in entry["server"]["description"]


@requirement("P-1.8", "P-1.9", "P-1.10", "P-1.13", "P-1.14")
def test_an_entry_has_the_data_of_the_team_folder(lab: Lab) -> None:
    entries = catalogue(lab)
    plain = entries["local.lab/pallas-plain"]["server"]
    assert (plain["title"], plain["version"]) == ("Plain", "1.2.3")
    assert plain["description"] == "Answers without tools, on a model that cannot see"
    [icon] = plain["icons"]
    assert icon["src"].startswith("http://")
    assert icon["src"].endswith("/icons/plain.png")
    assert isinstance(icon["sizes"], list)
    assert plain["capabilities"] == {
        "model": "offline",
        "vision": False,
        "context_window": 200000,
        "max_output_tokens": 32000,
    }
    assert entries["local.lab/pallas-seer"]["server"]["capabilities"]["vision"] is True
    assert "capabilities" not in entries["local.lab/pallas-chief"]["server"]
    assert "icons" not in entries["local.lab/pallas-chief"]["server"]


@requirement("P-1.15")
def test_an_entry_has_the_official_metadata_which_change_only_with_the_agent(lab: Lab) -> None:
    official = catalogue(lab)["local.lab/pallas-plain"]["_meta"][OFFICIAL]
    assert official["status"] == "active"
    assert official["isLatest"] is True
    assert datetime.fromisoformat(official["updatedAt"])
    assert catalogue(lab)["local.lab/pallas-plain"]["_meta"][OFFICIAL] == official


@requirement("P-1.11", "P-1.12")
async def test_every_url_in_the_catalogue_serves_mcp(lab: Lab) -> None:
    for entry in catalogue(lab).values():
        [remote] = entry["server"]["remotes"]
        assert remote["type"] == "streamable-http"
        async with Client(remote["url"]) as client:
            assert "get_health" in {tool.name for tool in (await client.list_tools()).tools}
