"""Makes the fast-agent agents of a team folder: their definitions, runtimes, and the connections that they share.

An agent that cannot be made is reported; the others are hosted.
"""

import asyncio
import logging
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from fast_agent_worker.own_agents import adopt_agents
from fast_agent_worker.project.load import Prepared, Project, silence
from fast_agent_worker.project.models import close_connections
from fast_agent_worker.project.named_models import NamedModel, dependency_of, lacking, models_of, teach
from fast_agent_worker.project.once import make_once
from fast_agent_worker.project.pool import AT_A_TIME, Connections
from fast_agent_worker.project.reasons import reason_of as why
from fast_agent_worker.project.settings import settings_of_a_worker
from fast_agent_worker.project.transport import leave_results_unchecked
from fast_agent_worker.settings import FastAgentSettings
from fast_agent_worker.turns.closure import all_disposed, check_making, closure_of
from fast_agent_worker.turns.journal import made_of
from fast_agent_worker.turns.runtime import FastAgentRuntime
from pallas_contracts.agents import AgentDefinition, Capabilities, Dependency, unusable
from pallas_contracts.bounds import reason_of
from pallas_contracts.errors import PallasError
from pallas_hosting.definition import check_agent, define_with_model, with_ours
from pallas_hosting.folders import HostedTeam
from pallas_hosting.metered import UNWATCHED, Watching
from pallas_teams import AgentConfig, StdioServer, TeamFolder
from pallas_teams.fast_agent.kinds import FAST_AGENT
from pallas_turns.runtime import HostedAgent

log = logging.getLogger(__name__)


async def host_team(
    folder: TeamFolder, settings: FastAgentSettings, watching: Watching = UNWATCHED, *, connect: bool = True
) -> HostedTeam:
    """Make the agents of a checked folder. Without `connect`, no server is started or called.

    Raises:
        Rejected: its settings cannot be read.
    """
    host = _Host(folder, settings, watching, connect)
    for agent in folder.agents.values():
        if agent.kind == FAST_AGENT:
            await host.add(agent)
    host.start()
    return HostedTeam(folder.name, folder.version, host.hosted, host, host.failed, host.unstarted)


@dataclass(slots=True)
class _Host:
    """Makes a team's agents. It is also what they share: the working directory, and connections."""

    folder: TeamFolder
    settings: FastAgentSettings
    watching: Watching
    connect: bool
    hosted: list[HostedAgent] = field(default_factory=list[HostedAgent])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unstarted: list[AgentDefinition] = field(default_factory=list[AgentDefinition])
    lacking: dict[str, str] = field(default_factory=dict[str, str])
    _bytes: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)
    _project: Project | None = None
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))
    _used: dict[str, list[Connections]] = field(default_factory=dict[str, list[Connections]])
    _connections: dict[tuple[int, str], Connections] = field(default_factory=dict[tuple[int, str], Connections])

    async def add(self, agent: AgentConfig) -> None:
        """Make one agent, or report why it cannot be made."""
        try:
            hosted = await self._make(agent)
            self._bytes += await check_agent(hosted.definition, self._bytes)
            self.hosted.append(hosted)
        except PallasError as error:
            self._give_up(agent, error.message)
        except ValidationError as error:
            self._give_up(agent, f"its definition cannot be used: {reason_of(error)}")
        except Exception as error:  # of many kinds: fast-agent reads files of the folder when it needs them
            log.exception("an agent cannot be made", extra={"agent": agent.name})
            self._give_up(agent, f"fast-agent refuses it: {why(error, self.folder.folder.absolute())}")

    def start(self) -> None:
        """Connect the servers of all agents."""
        for connections in self._connections.values():
            connections.start()

    async def close(self) -> None:
        """Close connections, and leave the folder."""
        await all_disposed()
        for connections in self._connections.values():
            await connections.close()
        if self._project is not None:
            await self._project.close()
        await close_connections()
        self._stack.close()

    def stdio_health(self) -> dict[str, str | None]:
        """What is wrong with each stdio dependency, by its key; None when it answers."""
        found: dict[str, str | None] = {}
        for connections in self._connections.values():
            for name, error in connections.health().items():
                server = self.folder.servers.get(name)
                if isinstance(server, StdioServer):
                    found[server.key()] = found.get(server.key()) or error
        return found

    def lacks(self) -> dict[str, str]:
        """What agents cannot be called without, and which of their servers are away that only fast-agent knows of."""
        found = dict(self.lacking)
        for agent, used in self._used.items():
            servers = {name: error for each in used for name, error in each.health().items()}
            for name, error in servers.items():
                if error is not None and name not in self.folder.servers:
                    found.setdefault(agent, f"server {name}: {error}")
        return found

    async def _make(self, agent: AgentConfig) -> HostedAgent:
        prepared, name = await self._loaded().prepared(agent)
        if self.settings.own_agents == "same-turn":
            await adopt_agents(self.folder, self._loaded(), prepared, name, self.settings.gateway_urls)
        data = closure_of(prepared, name)
        config = data[name]["config"]
        if config.model is None and agent.wanted_model is not None:
            config.model = agent.wanted_model
        models = models_of(prepared, data)
        model = models[0].spec if models else "none"
        teach(model, agent)
        if (missing := lacking(prepared, models)) is not None:
            log.warning("an agent cannot call its model", extra={"agent": agent.name, "reason": missing})
            self.lacking[agent.name] = missing
        else:
            await check_making(prepared, name)
        shared = {each: self._shared(prepared, each, it["config"]) for each, it in data.items()}
        self._used[agent.name] = [it for it in shared.values() if it is not None]
        definition = self._define(agent, data, models)
        runtime = FastAgentRuntime(
            config=agent,
            prepared=prepared,
            name=name,
            shared={each: it for each, it in shared.items() if it is not None},
            made_of={each: made_of(it) for each, it in data.items()},
            model=model,
            schema=config.tool_input_schema or None,
            watching=self.watching,
        )
        return HostedAgent(definition, self.watching.metered(runtime))

    def _loaded(self) -> Project:
        if self._project is None:
            folder = self.folder.folder.absolute()
            self._stack.enter_context(settings_of_a_worker(folder))
            warnings.simplefilter("ignore", DeprecationWarning)
            silence()
            make_once()
            leave_results_unchecked()
            self._project = Project(folder)
        return self._project

    def _shared(self, prepared: Prepared, name: str, config: Any) -> Connections | None:
        """The connections of an agent; None if it has no servers, or makes its own."""
        servers = tuple(dict.fromkeys(config.servers))
        if not self.connect or not servers or not self._shareable(prepared, servers):
            return None
        key = id(prepared), name
        if key not in self._connections:
            known = prepared.servers
            wanted = [server for server in servers if server not in known or known[server].load_on_start]
            self._connections[key] = Connections(prepared.fast.context, name, config, wanted, self._places)
        return self._connections[key]

    def _shareable(self, prepared: Prepared, servers: tuple[str, ...]) -> bool:
        known = prepared.servers
        mine = [known[server] for server in servers if server in known]
        if any(server.management == "provider" for server in mine):
            return False
        return self.settings.stdio == "shared" or all(server.transport != "stdio" for server in mine)

    def _define(self, agent: AgentConfig, data: Mapping[str, Any], models: tuple[NamedModel, ...]) -> AgentDefinition:
        name = agent.member or agent.name
        config = data[name]["config"] if name in data else None
        description = (
            agent.description or (config.description if config is not None else None) or f"Send a message to {name}."
        )
        definition = define_with_model(self.folder, replace(agent, description=" ".join(description.split())[:500]))
        used = dict.fromkeys(server for it in data.values() for server in it["config"].servers)
        servers = [self.folder.servers[server] for server in used if server in self.folder.servers]
        known = agent.capabilities
        capabilities = known and Capabilities(
            model=models[0].name if models else "none",
            vision=known.vision,
            context_window=known.context_window,
            max_output_tokens=known.max_output_tokens,
        )
        dependencies = tuple(Dependency(name=it.name, key=it.key(), transport=it.transport) for it in servers)
        model = dependency_of(self.folder, models)
        update: dict[str, Any] = {"capabilities": capabilities, "dependencies": dependencies, "model": model}
        if config is not None and config.tool_input_schema:
            [tool] = definition.tools
            update["tools"] = (tool.model_copy(update={"input_schema": with_ours(config.tool_input_schema)}),)
        return definition.model_copy(update=update)

    def _give_up(self, agent: AgentConfig, reason: str) -> None:
        log.error("agent failed to start", extra={"agent": agent.name, "reason": reason})
        self.failed[agent.name] = reason
        try:
            definition = define_with_model(self.folder, agent)
            # Its arguments may be others: whoever calls it is told why it is not there, and not that they do not fit.
            tools = tuple(tool.model_copy(update={"checks_arguments": True}) for tool in definition.tools)
            self.unstarted.append(definition.model_copy(update={"tools": tools}))
        except ValidationError:
            self.unstarted.append(unusable(self.folder.name, agent.name, reason))
