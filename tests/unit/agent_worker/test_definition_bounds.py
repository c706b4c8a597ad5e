"""Team folders have the bounds of definitions: `pallas agents validate` finds what a worker would refuse."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from agent_worker.teams import host_team
from pallas_cli.agents import check
from pallas_contracts.agents import read_definition
from pallas_contracts.bounds import (
    FEW,
    LONGEST_LINE,
    LONGEST_NAME,
    LONGEST_TEXT,
    MANY,
    MOST_COUNT,
    MOST_PER_SECOND,
    MOST_SECONDS,
)
from pallas_teams import load_team

ID = str(UUID(int=1))

LARGEST: dict[str, Any] = {
    "title": "x" * LONGEST_LINE,
    "description": "x" * LONGEST_TEXT,
    "version": f"1.0.0+{'x' * (LONGEST_LINE - 6)}",
    "icon": f"https://icons.test/{'x' * (LONGEST_TEXT - 19)}",
    "model": f"generic.{'x' * (LONGEST_NAME - 8)}",
    "depends_on": [f"a{number}" for number in range(MANY)],
    "servers": [f"s{number}" for number in range(MANY)],
    "turn_timeout": MOST_SECONDS,
    "queue_timeout": MOST_SECONDS,
    "max_concurrency": MOST_COUNT,
    "max_queued": MOST_COUNT,
    "max_attempts": MOST_COUNT,
    "max_rate": MOST_PER_SECOND,
    "max_rate_per_caller": MOST_PER_SECOND,
    "model_capabilities": {"context_window": MOST_COUNT, "max_output_tokens": MOST_COUNT},
    "allow": {"types": ["peer"] * FEW, "teams": [ID] * MANY, "tokens": [ID] * MANY},
}
"""The largest value of each field of an agent that becomes a part of its definition."""


BEYOND: Mapping[str, Any] = {
    **{name: f"{LARGEST[name]}x" for name in ("title", "description", "version", "icon", "model")},
    **{name: [*LARGEST[name], f"{name[0].replace('d', 'a')}{MANY}"] for name in ("depends_on", "servers")},
    **{name: value + 1 for name, value in LARGEST.items() if isinstance(value, int)},
    "model_capabilities.context_window": MOST_COUNT + 1,
    "model_capabilities.max_output_tokens": MOST_COUNT + 1,
    "allow.types": ["peer"] * (FEW + 1),
    "allow.teams": [ID] * (MANY + 1),
    "allow.tokens": [ID] * (MANY + 1),
}


def write(folder: Path, fields: Mapping[str, Any]) -> Path:
    others = {f"a{number}": {"model": "offline"} for number in range(MANY + 1)} if "depends_on" in fields else {}
    team = {"name": "big", "namespace": "x" * LONGEST_NAME, "team_id": ID, "agents": {"big": fields, **others}}
    names = (f"s{number}" for number in range(MANY + 1)) if "servers" in fields else ()
    servers = {name: {"url": "http://server.test/mcp"} for name in names}
    config = {"default_model": "offline", "generic": {"base_url": "http://m.test"}, "mcp": {"servers": servers}}
    folder.mkdir(exist_ok=True)
    (folder / "agents.yaml").write_text(yaml.safe_dump(team))
    (folder / "fastagent.config.yaml").write_text(yaml.safe_dump(config))
    return folder


async def test_an_agent_at_all_bounds_is_hosted_and_its_definition_can_be_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "big", LARGEST)
    assert check([folder]).valid
    hosted = await host_team(load_team(folder, {}))
    try:
        assert hosted.failed == {}
        for agent in hosted.agents:
            ids = {"team": "big", "agent": agent.definition.agent}
            assert read_definition(ids, agent.definition.model_dump_json().encode()).unusable is None
    finally:
        await hosted.shared.close()


@pytest.mark.parametrize("path", BEYOND)
def test_a_field_beyond_its_bound_is_a_fault_of_the_folder(tmp_path: Path, path: str) -> None:
    section, _, inner = path.partition(".")
    result = check([write(tmp_path / "big", {section: {inner: BEYOND[path]} if inner else BEYOND[path]})])
    assert [fault.path for fault in result.faults] == [f"agents.big.{path}"]
    assert "must have at most" in result.faults[0].message or "must be less than or equal" in result.faults[0].message


def test_an_icon_that_is_no_address_is_a_fault_of_the_folder(tmp_path: Path) -> None:
    (fault,) = check([write(tmp_path / "big", {"icon": "http://["})]).faults
    assert (fault.path, fault.message) == ("agents.big.icon", "is no address")


def test_a_namespace_beyond_its_bound_is_a_fault_of_the_folder(tmp_path: Path) -> None:
    folder = write(tmp_path / "big", {})
    agents = (folder / "agents.yaml").read_text()
    (folder / "agents.yaml").write_text(agents.replace("namespace: ", "namespace: y"))
    assert [fault.path for fault in check([folder]).faults] == ["namespace"]
