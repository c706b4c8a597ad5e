"""What `pallas agents explain` says of a folder of fast-agent, without running its code."""

import os
from pathlib import Path

import pytest

from pallas_cli.agents import check, explain_folder
from pallas_cli.team_folders import read_teams

MODULE = """
from fast_agent import FastAgent
fast = FastAgent("Team")

@fast.agent("harper", servers=["argos"], agents=["helper"])
@fast.agent("helper", servers=["argoss"], model="haiku")
async def main(): ...
"""
AGENTS = "agents: {harper: {module: team.py}, helper: {module: team.py}, other: {module: team.py, agent: othr}}"
CONFIG = "default_model: sonnet\nauto_sampling: true\nmcp: {servers: {argos: {url: 'http://argos.test'}}}\n"
SECRETS = "mcp: {servers: {argos: {headers: {Authorization: 'Bearer ${TEAM_JWT}'}}}}\n"
TWICE = "this key is given twice, first on line 1; fast-agent uses this one"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which two names are wrong."""
    files = {"team.py": MODULE, "agents.yaml": AGENTS}
    files |= {"fastagent.config.yaml": CONFIG, "fastagent.secrets.yaml": SECRETS}
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_an_agent_has_the_model_of_its_source_else_that_of_the_settings(folder: Path) -> None:
    agents = explain_folder(folder).agents
    assert [agents[name]["model"] for name in ("harper", "helper")] == ["sonnet", "haiku"]


def test_names_that_nothing_has_are_said_with_what_was_meant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_JWT", "x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    wanted = [
        f"{folder}/team.py:6:32: agents.helper: server 'argoss' is not in mcp.servers; did you mean 'argos'?",
        f"{folder}/team.py: agents.other: no agent 'othr' is found in its source",
    ]
    said = [f"{each} (a warning)" for each in wanted]
    assert set(said) <= {*explain_folder(folder).notes}
    assert check([folder]).as_lines()[1:] == said
    module = MODULE.replace('"Team"', '"Team", config_path=other()')
    (folder / "team.py").write_text(module, "utf-8")
    assert [str(each) for each in check([folder]).warnings] == wanted[1:]


def test_an_agent_without_a_model_is_said(folder: Path) -> None:
    (folder / "fastagent.config.yaml").write_text(CONFIG.replace("default_model: sonnet", ""), "utf-8")
    notes = explain_folder(folder).notes
    said = "agents.harper: has no model; set default_model, or a model in its source or in agents.yaml"
    assert f"{folder}/team.py:5:2: {said} (a warning)" in notes


def test_settings_that_are_translated_and_variables_that_are_needed_are_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEAM_JWT", raising=False)
    (folder / "more.yaml").write_text("a: '${WITH_ONE:default}${TEAM_JWT:-x}${PATH}'", "utf-8")
    found = explain_folder(folder)
    assert found.variables == {"TEAM_JWT": "not set", "WITH_ONE": "default", "PATH": "set"}
    assert "auto_sampling is read as mcp.client.auto_sampling" in found.notes
    assert "  variable TEAM_JWT: not set" in found.as_lines()


def test_a_part_that_is_left_out_is_a_fault_of_the_folder_and_a_warning_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    folder = tmp_path / "team"
    folder.mkdir()
    (folder / "team.py").write_text(MODULE, "utf-8")
    servers = "mcp: {servers: {argos: {}, argoss: {}}}\n"
    (folder / "fast-agent.yaml").write_text(f"default_model: sonnet\ndefault_model: haiku\n{servers}", "utf-8")
    assert check([folder]).valid
    assert check([folder]).as_lines()[-1].endswith("fast-agent.yaml:2:1: " + TWICE + " (a warning)")
    (folder / "bad.py").write_text("from fast_agent import FastAgent\n)", "utf-8")
    assert not check([folder]).valid
    [team] = read_teams([folder], os.environ)
    assert team.told == (
        f"left out: {folder}/bad.py:2:1: is not Python that can be read: unmatched ')'",
        f"warning: {folder}/fast-agent.yaml:2:1: {TWICE}",
    )
    ends = {"left out": " (left out, the rest is used)", "warning": " (a warning)"}
    said = [f"{text}{ends[kind]}" for kind, _, text in (told.partition(": ") for told in team.told)]
    assert {*said} <= {*explain_folder(folder).notes}
    assert check([folder]).as_lines()[1:] == said
