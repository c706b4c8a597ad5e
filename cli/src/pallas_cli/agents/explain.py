"""What a team folder will be, before it runs: agents, models, servers, needed variables, and translated settings."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallas_teams import AgentConfig, Fault, TeamFolder
    from pallas_teams.fast_agent.translate import Translated

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:?)")


@dataclass(frozen=True, slots=True)
class Explained:
    """What is known of a folder. `agents` has a few words on each; `notes` are sentences about its settings.

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
        notes=[*settings.notes, *map(str, (*team.left_out, *team.warnings))],
    )


def _agent(team: "TeamFolder", agent: "AgentConfig", settings: Mapping[str, Any]) -> dict[str, Any]:
    from pallas_teams.fast_agent.declared import declared

    folder, source = team.folder.absolute(), agent.card or agent.module
    found = declared(folder, agent, os.environ) if agent.kind == "fast-agent" else None
    default = str(agent.model) if agent.model else settings.get("default_model")
    return {
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
