"""The demo team as a stack hosts it: a folder in the data folder, with the checkout's files and its own secrets.

The files are links, so changes in the checkout take effect. With `--no-auth` there is no library-search: `agents.yaml`
is then a copy without it, written at every start. A demo folder with its own secrets, or without a library, belongs to
the user and is hosted unchanged.

Containers have such a folder, too. Its `fastagent.secrets.yaml` is a link to the file that stores the JWT.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from pallas_cli.private_files import private_folder, write_atomically
from pallas_cli.team_folders import TeamSummary, is_demo, read_teams

_LIBRARY_SERVER = "library-search"
_DOCUMENTS = "library"
_AGENTS = "agents.yaml"
_FILES = (_AGENTS, "fastagent.config.yaml")
_SECRETS_FILE = "fastagent.secrets.yaml"
_SECRETS = """\
# Made by Pallas: the JWT with which the demo team reads its library.
mcp:
  servers:
    {server}:
      headers:
        Authorization: Bearer {jwt}
"""
_KEPT = re.compile(r"^ +Authorization: Bearer (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DemoTeam:
    """The team that gets a library: its id at team-lifecycle, its hosted folder, and the library's documents."""

    team_id: str
    summary: TeamSummary
    documents: Path

    @property
    def folder(self) -> Path:
        """The folder that workers read."""
        return self.summary.folder

    def kept_jwt(self) -> str | None:
        """The JWT that an earlier start stored."""
        try:
            found = _KEPT.search((self.folder / _SECRETS_FILE).read_text("ascii"))
        except FileNotFoundError:
            return None
        return found[1] if found else None

    def keep_jwt(self, jwt: str) -> None:
        """Store a JWT for the workers and the next start."""
        write_atomically((self.folder / _SECRETS_FILE).resolve(), _SECRETS.format(server=_LIBRARY_SERVER, jwt=jwt))


def with_demo_team(data: Path, teams: Sequence[TeamSummary]) -> tuple[Sequence[TeamSummary], DemoTeam | None]:
    """The teams, with the demo team's folder in the data folder; and the demo team, if it is one of them."""
    found = next((team for team in teams if _gets_a_library(team)), None)
    if found is None or found.team_id is None:
        return teams, None
    hosted = _hosted(data, found)
    demo = DemoTeam(found.team_id, hosted, found.folder / _DOCUMENTS)
    return [hosted if team is found else team for team in teams], demo


def without_library(data: Path, teams: Sequence[TeamSummary]) -> Sequence[TeamSummary]:
    """The teams, with the demo team's folder in the data folder and without library-search."""
    return [_without_search(data, team) if _gets_a_library(team) else team for team in teams]


def _without_search(data: Path, team: TeamSummary) -> TeamSummary:
    hosted = _hosted(data, team)
    file = hosted.folder / _AGENTS
    tree = yaml.safe_load(file.read_text("utf-8"))
    for agent in tree["agents"].values():
        agent["servers"] = [name for name in agent.get("servers", ()) if name != _LIBRARY_SERVER]
    write_atomically(file, yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    return hosted


def prepared_team(folder: Path, environ: Mapping[str, str]) -> DemoTeam | None:
    """The team of a folder with documents and a link for the JWT; None for any other folder.

    Raises:
        Refused: the folder has faults.
    """
    [team] = read_teams([folder], environ)
    prepared = (folder / _DOCUMENTS).is_dir() and (folder / _SECRETS_FILE).is_symlink()
    if team.team_id is None or _LIBRARY_SERVER not in team.servers or not prepared:
        return None
    return DemoTeam(team.team_id, team, folder / _DOCUMENTS)


def _gets_a_library(team: TeamSummary) -> bool:
    own_secrets = (team.folder / _SECRETS_FILE).exists()
    return is_demo(team.folder) and _LIBRARY_SERVER in team.servers and not own_secrets


def _hosted(data: Path, team: TeamSummary) -> TeamSummary:
    """The team in a folder below the data folder, with links to its files."""
    folder = data / "teams" / team.name
    private_folder(folder.parent)
    private_folder(folder)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(team.folder / name)
    return replace(team, folder=folder)
