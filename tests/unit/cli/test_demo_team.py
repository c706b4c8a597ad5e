"""The demo team as a stack with an auth side hosts it."""

import re
import shutil
from pathlib import Path

import pytest

from pallas_cli.stack.demo_team import DemoTeam, prepared_team, with_demo_team, without_library
from pallas_cli.stack.ports import DEFAULT_BASE, Ports, demo_addresses
from pallas_cli.team_folders import TeamSummary, read_teams
from pallas_teams import HttpServer, load_team

CHECKOUT = Path(__file__).parents[3] / "teams" / "demo"
ADDRESSES = demo_addresses(Ports(DEFAULT_BASE))


@pytest.fixture
def summary() -> TeamSummary:
    """The demo team as it is in the checkout."""
    return read_teams([CHECKOUT], ADDRESSES)[0]


def demo_of(data: Path, summary: TeamSummary) -> DemoTeam:
    """The demo team, which has to get a library."""
    _, demo = with_demo_team(data, [summary])
    assert demo is not None
    return demo


def test_the_hosted_demo_folder_adds_a_secrets_file_to_that_of_the_checkout(
    tmp_path: Path, summary: TeamSummary
) -> None:
    other = TeamSummary("other", tmp_path, ("one",), frozenset())
    teams, demo = with_demo_team(tmp_path, [other, summary])
    assert demo is not None
    assert [team.folder for team in teams] == [tmp_path, tmp_path / "teams" / "demo"]
    assert demo.kept_jwt() is None
    demo.keep_jwt("head.body.sign-_")
    assert demo_of(tmp_path, summary).kept_jwt() == "head.body.sign-_"
    assert (demo.folder / "fastagent.secrets.yaml").stat().st_mode & 0o077 == 0
    assert not (CHECKOUT / "fastagent.secrets.yaml").exists()
    hosted = load_team(demo.folder, ADDRESSES)
    server = hosted.servers["library-search"]
    assert isinstance(server, HttpServer)
    assert server.url.get_secret_value() == ADDRESSES["PALLAS_DEMO_LIBRARY_URL"]
    assert server.headers["Authorization"].get_secret_value() == "Bearer head.body.sign-_"
    assert hosted.agents["research"].servers == ("toolbox", "library-search")


def test_edits_in_the_checkout_are_hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "teams" / "demo"
    shutil.copytree(CHECKOUT, copy)
    monkeypatch.chdir(tmp_path)
    demo = demo_of(tmp_path / "data", read_teams([copy], ADDRESSES)[0])
    agents = copy / "agents.yaml"
    agents.write_text(agents.read_text().replace("title: Harper", "title: Another"))
    assert load_team(demo.folder, ADDRESSES).agents["harper"].title == "Another"


def test_without_an_auth_side_the_demo_team_is_hosted_without_library_search(
    tmp_path: Path, summary: TeamSummary
) -> None:
    demo_of(tmp_path, summary).keep_jwt("head.body.sign-_")
    [team] = without_library(tmp_path, [summary])
    agents = load_team(team.folder, ADDRESSES).agents
    assert {name: agent.servers for name, agent in agents.items()} == dict.fromkeys(summary.agents, ("toolbox",))
    assert agents["harper"].title == load_team(CHECKOUT, ADDRESSES).agents["harper"].title
    hosted = load_team(demo_of(tmp_path, summary).folder, ADDRESSES)
    assert hosted.agents["research"].servers == ("toolbox", "library-search")
    assert "library-search" in (CHECKOUT / "agents.yaml").read_text()


@pytest.mark.parametrize("own", ["secrets", "servers", "id"])
def test_a_demo_folder_with_own_changes_is_hosted_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    copy = tmp_path / "teams" / "demo"
    shutil.copytree(CHECKOUT, copy)
    monkeypatch.chdir(tmp_path)
    agents, config = copy / "agents.yaml", copy / "fastagent.config.yaml"
    match own:
        case "secrets":
            (copy / "fastagent.secrets.yaml").write_text("openai: {api_key: mine}\n")
        case "servers":
            agents.write_text(agents.read_text().replace(", library-search", ""))
            config.write_text(config.read_text().partition("    library-search:")[0])
        case _:
            agents.write_text(re.sub(r"(?m)^team_id:.*\n", "", agents.read_text()))
    teams = read_teams([copy], ADDRESSES)
    assert with_demo_team(tmp_path / "data", teams) == (teams, None)
    if own != "id":
        assert without_library(tmp_path / "data", teams) == teams
    assert not (tmp_path / "data").exists()


def test_a_folder_with_a_link_for_its_secrets_keeps_the_jwt_at_the_target(tmp_path: Path) -> None:
    folder = tmp_path / "teams" / "team"
    shutil.copytree(CHECKOUT, folder)
    assert prepared_team(folder, ADDRESSES) is None
    link, kept = folder / "fastagent.secrets.yaml", tmp_path / "teams" / "kept.yaml"
    link.symlink_to("../kept.yaml")
    team = prepared_team(folder, ADDRESSES)
    assert team is not None
    assert (team.kept_jwt(), team.documents) == (None, folder / "library")
    team.keep_jwt("head.body.sign-_")
    assert (team.kept_jwt(), link.is_symlink(), "head.body.sign-_" in kept.read_text()) == (
        "head.body.sign-_",
        True,
        True,
    )


def test_a_team_with_secrets_of_its_own_is_not_prepared(tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT, tmp_path / "team")
    (tmp_path / "team" / "fastagent.secrets.yaml").write_text("{}")
    assert prepared_team(tmp_path / "team", ADDRESSES) is None
