"""The demo team as a stack with an auth side hosts it: the checkout's files, beside secrets of this data folder.

The files are links, so what is edited in the checkout is taken up. A demo folder that has secrets of its own, or reads
no library any more, has become somebody's own and is hosted as it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pallas_cli.stack.data import keep_secret
from pallas_cli.stack.teams import TeamSummary, is_demo

_LIBRARY_SERVER = "library-search"
_FILES = ("agents.yaml", "fastagent.config.yaml")
_SECRETS_FILE = "fastagent.secrets.yaml"
_SECRETS = """\
# Made by `pallas up`: the JWT by which the demo team reads its library.
mcp:
  servers:
    {server}:
      headers:
        Authorization: Bearer {jwt}
"""
_KEPT = re.compile(r"^ +Authorization: Bearer (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DemoTeam:
    """The team that gets a library: its id at team-lifecycle, what is hosted of it, and the library's documents."""

    team_id: str
    summary: TeamSummary
    documents: Path

    @property
    def folder(self) -> Path:
        """The folder that workers read."""
        return self.summary.folder

    def kept_jwt(self) -> str | None:
        """The JWT that an earlier start has kept."""
        try:
            found = _KEPT.search((self.folder / _SECRETS_FILE).read_text("ascii"))
        except FileNotFoundError:
            return None
        return found[1] if found else None

    def keep_jwt(self, jwt: str) -> None:
        """Put a JWT where the workers find it, and the next start."""
        keep_secret(self.folder / _SECRETS_FILE, _SECRETS.format(server=_LIBRARY_SERVER, jwt=jwt))


def with_demo_team(data: Path, teams: Sequence[TeamSummary]) -> tuple[Sequence[TeamSummary], DemoTeam | None]:
    """The teams with the demo team's folder in the data folder, and that team, if it is among them."""
    found = next((team for team in teams if _gets_a_library(team)), None)
    if found is None or found.team_id is None:
        return teams, None
    hosted = replace(found, folder=data / "teams" / found.name)
    _link(found.folder, hosted.folder)
    demo = DemoTeam(found.team_id, hosted, found.folder / "library")
    return [hosted if team is found else team for team in teams], demo


def _gets_a_library(team: TeamSummary) -> bool:
    own_secrets = (team.folder / _SECRETS_FILE).exists()
    return is_demo(team.folder) and _LIBRARY_SERVER in team.servers and not own_secrets


def _link(checkout: Path, folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(checkout / name)
