"""The ScaledObject for KEDA that is made of team folders."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pallas_cli.agents.scaled_object import Scaling, scaled_object
from pallas_cli.refused import Refused

SCALING = Scaling("workers", "elsewhere", slots=16, least=0, most=4)
AGENT = "{{title: {name}, description: One., model: offline, instruction: Hello.{more}}}"


def a_team(folder: Path, team: str, **agents: str) -> Path:
    """A team folder; each agent may have more in its section."""
    folder.mkdir()
    lines = [f"  {name}: {AGENT.format(name=name, more=more)}" for name, more in agents.items()]
    (folder / "agents.yaml").write_text("\n".join((f"name: {team}", "agents:", *lines)), "utf-8")
    return folder


def spec_of(*folders: Path) -> dict[str, Any]:
    return yaml.safe_load(scaled_object(folders, SCALING))["spec"]


def test_every_agent_of_every_team_has_a_trigger_and_triggers_are_summed(tmp_path: Path) -> None:
    spec = spec_of(a_team(tmp_path / "a", "red", one="", two=""), a_team(tmp_path / "b", "7up", in_="", three=""))
    consumers = [trigger["metadata"]["consumer"] for trigger in spec["triggers"]]
    assert consumers == ["red__one", "red__two", "7up__in_", "7up__three"]
    names = [trigger["name"] for trigger in spec["triggers"]]
    assert spec["advanced"]["scalingModifiers"]["formula"] == " + ".join(names)
    assert all(name.isidentifier() for name in names)


def test_the_target_of_turns_for_each_worker_is_its_number_of_slots(tmp_path: Path) -> None:
    spec = spec_of(a_team(tmp_path / "a", "red", one=""))
    assert spec["advanced"]["scalingModifiers"]["target"] == "16"
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 4)


def test_the_lag_of_an_agent_counts_up_to_its_max_concurrency(tmp_path: Path) -> None:
    spec = spec_of(a_team(tmp_path / "a", "red", one=", max_concurrency: 3", two=""))
    assert spec["advanced"]["scalingModifiers"]["formula"] == "(lag_1 < 3 ? lag_1 : 3) + lag_2"


def test_a_folder_that_cannot_be_hosted_is_refused_with_its_faults(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        scaled_object([tmp_path / "none"], SCALING)
    assert "is not a folder" in "".join(refused.value.lines)
