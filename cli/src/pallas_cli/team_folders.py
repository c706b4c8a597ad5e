"""Team folders as commands read them.

Workers and the health-monitor read the folders themselves. This module keeps what a stack needs to choose ports, and to
know when every agent can be called.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pallas_cli.refused import Refused

if TYPE_CHECKING:
    from pallas_teams import Fault


_COPY = Path("teams") / "demo"
"""A folder below the working directory that counts as the demo team, too."""


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """A team: its name, its agents in the order of the file, their dedicated ports, its id at team-lifecycle, the names
    of its downstream servers, whether it has agents of fast-agent, and what is said of parts of the folder."""

    name: str
    folder: Path
    agents: tuple[str, ...]
    ports: frozenset[int]
    team_id: str | None = None
    servers: frozenset[str] = frozenset()
    fast_agent: bool = False
    told: tuple[str, ...] = ()


def demo_folder() -> Path:
    """Return the folder of the demo team.

    Raises:
        Refused: it is not installed.
    """
    spec = find_spec("pallas_demo")
    if spec is None or spec.origin is None:
        raise Refused("the demo team is not installed; pass a team folder with --teams, or install `pallas-cli[stack]`")
    return Path(spec.origin).resolve().parent / "team"


def is_demo(folder: Path) -> bool:
    """Whether `folder` is the demo team, by whatever path."""
    return find_spec("pallas_demo") is not None and folder.resolve() in (demo_folder(), _COPY.resolve())


def read_teams(folders: Sequence[Path], environ: Mapping[str, str]) -> Sequence[TeamSummary]:
    """Read and check the folders as workers do. `environ` has the values of their `${NAME}`.

    Raises:
        Refused: a folder has faults; one line for each such folder.
    """
    from pallas_teams import TeamFaults, load_teams

    try:
        teams = load_teams(folders, environ)
    except TeamFaults as error:
        raise Refused(*_lines(folders, error.faults)) from error
    return [
        TeamSummary(
            name=team.name,
            folder=team.folder.absolute(),
            agents=tuple(team.agents),
            ports=frozenset(agent.port for agent in team.agents.values() if agent.port is not None),
            team_id=team.team_id,
            servers=frozenset(team.servers),
            fast_agent=any(agent.kind == "fast-agent" for agent in team.agents.values()),
            told=(*(f"left out: {it}" for it in team.left_out), *(f"warning: {it}" for it in team.warnings)),
        )
        for team in teams
    ]


def _lines(folders: Sequence[Path], faults: Sequence["Fault"]) -> Iterator[str]:
    """One line for each folder with faults: the first fault, and the command that prints all."""
    for folder in folders:
        found = [str(fault) for fault in faults if Path(fault.file).is_relative_to(folder)]
        if found:
            more = f" ({len(found) - 1} more: pallas agents validate {folder})" if len(found) > 1 else ""
            yield f"bad team folder {folder}: {found[0]}{more}"
