"""What the programs and cards of a team say of its agents, and what they name although nothing has it.

Nothing is run: what a module computes is not known here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pallas_teams.fast_agent.cards import read_card
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_teams.fast_agent.project import module_file
from pallas_teams.fast_agent.source import FoundAgent, read_source
from pallas_teams.fast_agent.translate import settings_of
from pallas_teams.faults import Fault, FaultList
from pallas_teams.model import AgentConfig, TeamFolder
from pallas_teams.shape import suggestion


def declared(folder: Path, agent: AgentConfig, environ: Mapping[str, str]) -> FoundAgent | None:
    """What its source says of an agent of fast-agent; None if it has no such agent that can be read."""
    faults = FaultList()
    if agent.card is not None:
        return read_card(agent.card, environ, faults)
    module = agent.module
    file = module if isinstance(module, Path) else folder / (module_file(folder, str(module)) or "")
    found = {each.name: each for each in read_source(file, faults)} if file.is_file() else {}
    if agent.member is not None:
        return found.get(agent.member)
    return found.get(agent.name) or (list(found.values())[-1] if found else None)


def missing_parts(team: TeamFolder, environ: Mapping[str, str]) -> Iterator[Fault]:
    """Servers, models and agents that are named and are not there, with the lines that name them."""
    agents = {name: agent for name, agent in team.agents.items() if agent.kind == FAST_AGENT}
    settings = settings_of(team.folder, environ).settings if agents else {}
    mcp: Mapping[str, Mapping[str, Any]] = settings.get("mcp") or {}
    known: set[str] = {*team.servers, *(mcp.get("servers") or {})}
    for name, agent in agents.items():
        found, path = declared(team.folder, agent, environ), f"agents.{name}"
        if found is None:
            if agent.member is not None:
                source = str(agent.card or agent.module)
                yield Fault(source, 0, 0, path, f"no agent {agent.member!r} is found in its source")
            continue
        place = (found.mark.file, found.mark.line, found.mark.column, path)
        for server in found.servers:
            if server not in known and not found.elsewhere:
                yield Fault(*place, f"server {server!r} is not in mcp.servers{suggestion(server, known)}")
        default = settings.get("default_model") or environ.get("FAST_AGENT_MODEL")
        if found.type == "agent" and not (found.model or agent.wanted_model or default or found.elsewhere):
            yield Fault(*place, "has no model; set default_model, or a model in its source or in agents.yaml")
