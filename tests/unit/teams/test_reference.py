"""The example of `docs/team-folder.md` loads. Its tables of fields are generated."""

import re
from pathlib import Path

from tests.unit.teams.folders import load

REFERENCE = Path(__file__).parents[3] / "docs" / "team-folder.md"


def test_the_example_of_the_reference_loads(tmp_path: Path) -> None:
    for name, text in re.findall(r"```yaml\n# (\S+)\n(.*?)```", REFERENCE.read_text(), re.DOTALL):
        (tmp_path / name).write_text(text)
    (tmp_path / "harper.md").write_text("You are Harper.")
    (tmp_path / "numbers.py").touch()
    team = load(tmp_path, {"ANTHROPIC_API_KEY": "k", "TEAM_JWT": "j"})
    assert list(team.agents) == ["harper", "research", "numbers"]
    assert set(team.providers) == {"anthropic", "generic"}
