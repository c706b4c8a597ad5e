"""What a team folder will be, before it runs: agents, models, servers, needed variables, and translated settings."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallas_teams import AgentConfig, Fault, TeamFolder

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
    return Explained(
        team=team.name,
        agents={name: _agent(team, agent) for name, agent in team.agents.items()},
        servers={name: server.transport for name, server in team.servers.items()},
        variables={name: name in os.environ for name in _variables(folder)},
        notes=_notes(team),
    )


def _agent(team: "TeamFolder", agent: "AgentConfig") -> dict[str, Any]:
    from pallas_teams.fast_agent.project import declared

    folder, source = team.folder.absolute(), agent.card or agent.module
    words: dict[str, Any] = {"kind": agent.kind}
    words["from"] = str(source.relative_to(folder)) if isinstance(source, Path) else source
    names = [name for name in (agent.member, agent.name) if name]
    found = declared(folder, agent.module, agent.card, names) if agent.kind == "fast-agent" else None
    said = {"type": found.type, "model": found.model, "servers": found.servers, "calls": found.members} if found else {}
    words["type"] = said.get("type")
    words["model"] = said.get("model") or agent.wanted_model or (str(agent.model) if agent.model else None)
    words["servers"] = ", ".join(said.get("servers") or agent.servers)
    words["calls"] = ", ".join(dict.fromkeys(said.get("calls") or agent.depends_on))
    words["port"] = agent.port
    return words


def _variables(folder: Path) -> list[str]:
    """The environment variables that its files name."""
    found = (_VARIABLE.findall(path.read_text("utf-8", "replace")) for path in sorted(folder.glob("*.yaml")))
    return list(dict.fromkeys(name for names in found for name in names))


def _notes(team: "TeamFolder") -> Sequence[str]:
    """What is translated or forced in the settings of a folder with fast-agent agents."""
    from pallas_teams.fast_agent.translate import settings_of

    if all(agent.kind != "fast-agent" for agent in team.agents.values()):
        return ()
    return settings_of(team.folder, os.environ).notes
