"""Team folders before they run: checked as one worker would read them together, and explained."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallas_teams import AgentConfig, Fault, TeamFolder
    from pallas_teams.fast_agent.translate import Translated


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
        return [*teams, *map(str, self.faults), *(line for team in self.teams for line in _told(team))]


def _told(team: "TeamFolder") -> list[str]:
    """What is said of parts of a folder that is used."""
    left_out = [f"{fault} (left out, the rest is used)" for fault in team.left_out]
    return [*left_out, *(f"{fault} (a warning)" for fault in team.warnings)]


def check(folders: Sequence[Path]) -> TeamCheck:
    """Read the folders as a worker does. Faults are in the result and raise no error."""
    from pallas_teams import TeamFaults, load_teams

    try:
        return TeamCheck(teams=load_teams(folders, os.environ))
    except TeamFaults as error:
        return TeamCheck(faults=error.faults)


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:?)")


@dataclass(frozen=True, slots=True)
class Explained:
    """What is known of a folder. `agents` has a few words on each, by its address; `notes` are sentences about it.

    `variables` are those that its files name: "set", "not set", or "default" where there is one to use.
    """

    team: str = ""
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: Sequence[str] = ()
    faults: "Sequence[Fault]" = ()

    def as_json(self) -> dict[str, Any]:
        """It as plain values."""
        return asdict(self)

    def as_lines(self) -> list[str]:
        """It as text."""
        if self.faults:
            return [str(fault) for fault in self.faults]
        lines = [f"team {self.team}"]
        for name, words in self.agents.items():
            lines.append(f"  {name}: " + ", ".join(f"{word} {value}" for word, value in words.items() if value))
        lines += [f"  server {name}: {transport}" for name, transport in self.servers.items()]
        lines += [f"  variable {name}: {state}" for name, state in self.variables.items()]
        return [*lines, *(f"  {note}" for note in self.notes)]


def explain_folder(folder: Path) -> Explained:
    """Read a folder without running its code."""
    from pallas_teams import TeamFaults, load_team

    try:
        team = load_team(folder, os.environ)
    except TeamFaults as error:
        return Explained(faults=error.faults)
    settings = _settings(team)
    agents = {name: _agent(team, agent, settings.settings) for name, agent in team.agents.items()}
    return Explained(
        team=team.name,
        agents=agents,
        servers={name: server.transport for name, server in team.servers.items()},
        variables=_variables(folder),
        notes=[*settings.notes, *_told(team)],
    )


def _agent(team: "TeamFolder", agent: "AgentConfig", settings: Mapping[str, Any]) -> dict[str, Any]:
    from pallas_teams.fast_agent.declared import Declared

    folder, source = team.folder.absolute(), agent.card or agent.module
    found = Declared(folder, os.environ).agent(agent) if agent.kind == "fast-agent" else None
    default = str(agent.model) if agent.model else settings.get("default_model")
    return {
        "named": agent.member if agent.member != agent.name else None,
        "kind": agent.kind,
        "from": str(source.relative_to(folder)) if isinstance(source, Path) else source,
        "type": found and found.type,
        "model": (found and found.model) or agent.wanted_model or default,
        "servers": ", ".join(found.servers if found and found.servers else agent.servers),
        "calls": ", ".join(dict.fromkeys(found.members if found and found.members else agent.depends_on)),
        "port": agent.port,
    }


def _variables(folder: Path) -> dict[str, str]:
    """The environment variables that its files name, also those where fast-agent keeps its own."""
    from pallas_teams.fast_agent.project import sources_in

    paths = (path for path in sources_in(folder) if path.suffix != ".py")
    texts = (path.read_text("utf-8", "replace") for path in sorted(paths))
    defaults: dict[str, bool] = {}
    for name, default in (found for text in texts for found in _VARIABLE.findall(text)):
        defaults[name] = defaults.get(name, True) and bool(default)
    return {
        name: "set" if name in os.environ else "default" if default else "not set" for name, default in defaults.items()
    }


def _settings(team: "TeamFolder") -> "Translated":
    """The settings of a folder with fast-agent agents, with what is translated or forced in them; else none."""
    from pallas_teams.fast_agent.translate import Translated, settings_of

    if all(agent.kind != "fast-agent" for agent in team.agents.values()):
        return Translated({})
    return settings_of(team.folder, os.environ)
