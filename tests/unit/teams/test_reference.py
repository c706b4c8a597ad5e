"""`docs/team-folder.md` is true: its example loads, and it names every field."""

import re
from pathlib import Path

import pytest
from tests.unit.teams.folders import load

from pallas_teams.schema import (
    AgentSection,
    AgentsFile,
    CapabilitiesSection,
    ConfigFile,
    ProviderSection,
    Section,
    ServerSection,
)

REFERENCE = Path(__file__).parents[3] / "docs" / "team-folder.md"


def test_the_example_of_the_reference_loads(tmp_path: Path) -> None:
    for name, text in re.findall(r"```yaml\n# (\S+)\n(.*?)```", REFERENCE.read_text(), re.DOTALL):
        (tmp_path / name).write_text(text)
    (tmp_path / "harper.md").write_text("You are Harper.")
    (tmp_path / "numbers.py").touch()
    team = load(tmp_path, {"ANTHROPIC_API_KEY": "k", "TEAM_JWT": "j"})
    assert list(team.agents) == ["harper", "research", "numbers"]
    assert set(team.providers) == {"anthropic", "generic"}


@pytest.mark.parametrize(
    "section", [AgentsFile, AgentSection, CapabilitiesSection, ConfigFile, ProviderSection, ServerSection]
)
def test_the_reference_names_every_field(section: type[Section]) -> None:
    named = set(re.findall(r"`([a-z_]+)[`.]", REFERENCE.read_text()))
    assert set(section.model_fields) <= named
