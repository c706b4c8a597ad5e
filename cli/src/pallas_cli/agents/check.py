"""Checks team folders as one worker would read them together, and reports every fault."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallas_teams import Fault, TeamFolder


@dataclass(frozen=True, slots=True)
class TeamCheck:
    """The result: the teams if all folders are valid, else the faults."""

    teams: "Sequence[TeamFolder]" = ()
    faults: "Sequence[Fault]" = ()

    @property
    def valid(self) -> bool:
        """Whether a worker can host the teams, with all of their agents."""
        return not self.found

    @property
    def found(self) -> "Sequence[Fault]":
        """The faults, also those of programs and cards that are left out while the others are hosted."""
        return [*self.faults, *(fault for team in self.teams for fault in team.left_out)]

    @property
    def warnings(self) -> "Sequence[Fault]":
        """What is used all the same, and may be meant otherwise."""
        return [fault for team in self.teams for fault in team.warnings]

    def as_json(self) -> dict[str, Any]:
        """The result as plain values; a fault's keys are the fields of `pallas_teams.Fault`."""
        teams = [{"folder": str(team.folder), "name": team.name, "agents": list(team.agents)} for team in self.teams]
        found = {"faults": self.found, "warnings": self.warnings}
        return {"valid": self.valid, "teams": teams} | {key: [asdict(it) for it in each] for key, each in found.items()}

    def as_lines(self) -> list[str]:
        """The result as text: one line for each team or fault."""
        teams = [f"{team.folder}: team {team.name} with {', '.join(team.agents)}" for team in self.teams]
        return [*teams, *(str(fault) for fault in self.found), *(f"{fault} (a warning)" for fault in self.warnings)]


def check(folders: Sequence[Path]) -> TeamCheck:
    """Read the folders as a worker does. Faults are in the result and raise no error."""
    from pallas_teams import TeamFaults, load_teams

    try:
        return TeamCheck(teams=load_teams(folders, os.environ))
    except TeamFaults as error:
        return TeamCheck(faults=error.faults)
