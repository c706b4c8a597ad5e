"""Team folders before they run: checked as one worker would read them together, and explained."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
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
        return [*teams, *(str(fault) for fault in self.found), *(f"{fault} (a warning)" for fault in self.warnings)]


def check(folders: Sequence[Path]) -> TeamCheck:
    """Read the folders as a worker does. Faults are in the result and raise no error."""
    from pallas_teams import TeamFaults, load_teams

    try:
        return TeamCheck(teams=load_teams(folders, os.environ))
    except TeamFaults as error:
        return TeamCheck(faults=error.faults)


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, slots=True)
class Explained:
    """What is known of a folder. `agents` has a few words on each; `notes` are sentences about its settings."""

    team: str = ""
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    servers: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Mapping[str, bool] = field(default_factory=dict[str, bool])
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
        lines += [f"  variable {name}: {'set' if known else 'not set'}" for name, known in self.variables.items()]
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
        variables={name: name in os.environ for name in _variables(folder)},
        notes=[
            *settings.notes,
            *map(str, (*team.left_out, *team.warnings)),
            *_missing(team, agents, settings.settings),
        ],
    )


def _agent(team: "TeamFolder", agent: "AgentConfig", settings: Mapping[str, Any]) -> dict[str, Any]:
    from pallas_teams.fast_agent.project import declared

    folder, source = team.folder.absolute(), agent.card or agent.module
    words: dict[str, Any] = {"kind": agent.kind}
    words["from"] = str(source.relative_to(folder)) if isinstance(source, Path) else source
    names = [name for name in (agent.member, agent.name) if name]
    found = declared(folder, agent.module, agent.card, names) if agent.kind == "fast-agent" else None
    if found and agent.module and agent.member not in (None, found.name):
        found = None
    said = {"type": found.type, "model": found.model, "servers": found.servers, "calls": found.members} if found else {}
    words["type"] = said.get("type")
    default = str(agent.model) if agent.model else settings.get("default_model")
    words["model"] = said.get("model") or agent.wanted_model or default
    words["servers"] = ", ".join(said.get("servers") or agent.servers)
    words["calls"] = ", ".join(dict.fromkeys(said.get("calls") or agent.depends_on))
    words["port"] = agent.port
    return words


def _variables(folder: Path) -> list[str]:
    """The environment variables that its files name, also those where fast-agent keeps its own."""
    from pallas_teams.fast_agent.project import sources_in

    paths = (path for path in sources_in(folder) if path.suffix != ".py")
    found = (_VARIABLE.findall(path.read_text("utf-8", "replace")) for path in sorted(paths))
    return list(dict.fromkeys(name for names in found for name in names))


def _settings(team: "TeamFolder") -> "Translated":
    """The settings of a folder with fast-agent agents, with what is translated or forced in them; else none."""
    from pallas_teams.fast_agent.translate import Translated, settings_of

    if all(agent.kind != "fast-agent" for agent in team.agents.values()):
        return Translated({})
    return settings_of(team.folder, os.environ)


def _missing(team: "TeamFolder", agents: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> Iterator[str]:
    """Names in the sources of fast-agent agents that nothing has. What a module computes is not known here."""
    from pallas_teams.shape import suggestion

    mcp: Mapping[str, Mapping[str, Any]] = settings.get("mcp") or {}
    known: set[str] = {*team.servers, *(mcp.get("servers") or {})}
    for name, words in agents.items():
        if words["kind"] != "fast-agent":
            continue
        for server in filter(None, words["servers"].split(", ")):
            if server not in known:
                yield f"{name}: server {server!r} is not in mcp.servers{suggestion(server, known)}"
        if words["type"] in (None, "agent") and not words["model"]:
            yield f"{name}: has no model; set default_model, or a model in its source or in agents.yaml"
        member = team.agents[name].member
        if member is not None and words["type"] is None:
            yield f"{name}: no agent {member!r} is found in its source"
