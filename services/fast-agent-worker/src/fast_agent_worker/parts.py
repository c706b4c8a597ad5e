"""The agents of each process of a folder.

A program, which is a file, has one of its own, as where fast-agent itself runs it: modules, the working directory,
variables and whatever else belongs to a process are the program's. Cards share one, as fast-agent's command has them,
and so do modules with dotted names, which the upstream Pallas imports into one process.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fast_agent_worker.settings import FastAgentSettings
from pallas_teams import AgentConfig, HttpServer, TeamFolder
from pallas_teams.fast_agent.declared import Declared
from pallas_teams.fast_agent.kinds import FAST_AGENT, agent_at


@dataclass(frozen=True, slots=True)
class Part:
    """The agents of one process. `failed` are those that it only reports, each with the reason."""

    agents: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, folder: TeamFolder) -> Mapping[str, AgentConfig]:
        """What the folder says of all of them."""
        return {name: it for name, it in folder.agents.items() if name in self.agents or name in self.failed}


def source_of(folder: TeamFolder, agent: AgentConfig) -> str:
    """The card or the module of an agent, relative to the folder if it is a file."""
    source = agent.card or agent.module
    return str(source.relative_to(folder.folder) if isinstance(source, Path) else source)


def split(folder: TeamFolder, part: Part, agent: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The source of an agent, the agents of the part that have it, too, and the others."""
    source = {name: source_of(folder, folder.agents[name]) for name in part.agents}
    mine = tuple(name for name in source if source[name] == source[agent])
    return source[agent], mine, tuple(name for name in source if name not in mine)


def ending(code: int) -> str:
    """How a process has ended, by its exit code; that is negative if a signal has ended it."""
    if code >= 0:
        return f"ended the process with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def parts_of(folder: TeamFolder, settings: FastAgentSettings, environ: Mapping[str, str]) -> Sequence[Part]:
    """The parts of a folder, in its order. There is at least one."""
    agents = [agent for agent in folder.agents.values() if agent.kind == FAST_AGENT]
    group = {agent.name: str(agent.module) if isinstance(agent.module, Path) else "" for agent in agents}
    if settings.own_agents == "same-turn":
        sources = Declared(folder.folder, environ)
        for agent in agents:
            found = sources.agent(agent)
            for other in _called(folder, found.servers if found else (), settings.gateway_urls):
                _join(group, agent.name, other)
    parts = [Part(tuple(name for name, it in group.items() if it == each)) for each in dict.fromkeys(group.values())]
    return parts or [Part()]


def _called(folder: TeamFolder, servers: Iterable[str], gateways: Sequence[str]) -> Iterable[str]:
    """The agents of the folder among the servers of one of them: it calls them in the same turn."""
    for server in servers:
        known = folder.servers.get(server)
        if isinstance(known, HttpServer) and (agent := agent_at(folder, known.url.get_secret_value(), gateways)):
            yield agent.name


def _join(group: dict[str, str], one: str, other: str) -> None:
    before, after = group[other], group[one]
    group.update({name: after for name, it in group.items() if it == before})
