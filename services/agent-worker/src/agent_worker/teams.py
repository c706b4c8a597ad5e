"""Makes the agents of a team folder: definitions, runtimes, and what the runtimes share.

An agent that cannot be made is reported; the others are hosted. LLM libraries are imported only for a team with an LLM
agent, in a thread, because that takes seconds. Modules of function agents are imported, and definitions checked, in
threads, too.
"""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError

from agent_worker.downstream.calls import CallFailed, MayRepeat, call_tool, is_safe
from agent_worker.downstream.server import DownstreamPool, DownstreamServer
from pallas_contracts.agents import AgentDefinition, JsonObject, unusable
from pallas_contracts.bounds import reason_of
from pallas_contracts.errors import PallasError, Rejected, Unavailable
from pallas_contracts.turns import ToolStarted
from pallas_hosting.definition import check_agent, define, define_with_model
from pallas_hosting.folders import HostedTeam
from pallas_hosting.functions import StepFailed
from pallas_hosting.metered import UNWATCHED, Watching
from pallas_teams import AgentConfig, TeamFolder
from pallas_turns.events import Emitter
from pallas_turns.runtime import AgentRuntime, HostedAgent, Steps

if TYPE_CHECKING:
    from agent_worker.llm.models import TeamModels
    from agent_worker.llm.runtime import LlmRuntime
    from pallas_hosting.functions import FunctionAgent

log = logging.getLogger(__name__)

_TRANSPORTS = "agent_worker.downstream.transports"


async def host_team(folder: TeamFolder, watching: Watching = UNWATCHED) -> HostedTeam:
    """Make the agents of a checked folder, without those of kinds that have a worker of their own."""
    shared = SharedRuntime(watching)
    agents = [agent for agent in folder.agents.values() if agent.kind in _KINDS]
    for kind in sorted({agent.kind for agent in agents}):
        await _KINDS[kind].prepare(folder, shared)
    host = _Host(folder, shared)
    for agent in agents:
        await host.add(agent)
    return HostedTeam(folder.name, folder.version, host.hosted, shared, host.failed, host.unstarted)


async def _prepare_llm(folder: TeamFolder, shared: "SharedRuntime") -> None:
    await asyncio.to_thread(_import_llm, with_servers=bool(folder.servers))
    shared.open_models()


async def _prepare_function(folder: TeamFolder, shared: "SharedRuntime") -> None:
    """Import what connects to servers. Modules are imported agent by agent."""
    if any(agent.servers for agent in folder.agents.values() if agent.kind == "function"):
        await asyncio.to_thread(importlib.import_module, _TRANSPORTS)


def _import_llm(*, with_servers: bool) -> None:
    importlib.import_module("agent_worker.llm.runtime")
    if with_servers:
        importlib.import_module(_TRANSPORTS)


class SharedRuntime:
    """A team's pooled connections and model clients."""

    def __init__(self, watching: Watching = UNWATCHED) -> None:
        self.pool = DownstreamPool()
        self.servers: dict[str, Collection[DownstreamServer]] = {}
        self.models: TeamModels | None = None
        self.watching = watching

    def open_models(self) -> None:
        """Get ready to make models; called after the LLM libraries are imported."""
        from agent_worker.llm.models import TeamModels
        from agent_worker.llm.responses import ignore

        how = self.watching
        counted = how.metrics.responded if how.metrics is not None else ignore
        self.models = TeamModels(trace_content=how.trace_content, prices=how.prices, counted=counted)

    async def close(self) -> None:
        """Close all connections and end all child processes."""
        await self.pool.close()
        if self.models is not None:
            await self.models.close()

    def stdio_health(self) -> dict[str, str | None]:
        """What is wrong with each stdio dependency, by its key; None when it answers."""
        return self.pool.stdio_health()

    def lacks(self) -> dict[str, str]:
        """What each agent lacks of its servers and of those of its sub-agents; one that lacks nothing is not in it."""
        found = {agent: [why for it in servers if (why := it.lacking())] for agent, servers in self.servers.items()}
        return {agent: ", ".join(reasons) for agent, reasons in found.items() if reasons}


@dataclass(slots=True)
class _Host:
    """Makes a team's agents, sub-agents before those that depend on them."""

    folder: TeamFolder
    shared: SharedRuntime
    hosted: list[HostedAgent] = field(default_factory=list[HostedAgent])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unstarted: list[AgentDefinition] = field(default_factory=list[AgentDefinition])
    _bytes: int = 0
    _llm: "dict[str, LlmRuntime]" = field(default_factory=lambda: dict[str, "LlmRuntime"]())

    async def add(self, agent: AgentConfig) -> None:
        try:
            hosted = await _KINDS[agent.kind].make(self, agent)
            self._bytes += await check_agent(hosted.definition, self._bytes)
            self.hosted.append(hosted)
            self.shared.servers[agent.name] = self._used(agent).values()
        except PallasError as error:
            self._give_up(agent, error.message)
        except ValidationError as error:
            self._give_up(agent, f"its definition cannot be used: {reason_of(error)}")
        except Exception as error:
            log.exception("agent could not be started", extra={"agent": agent.name})
            self._give_up(agent, f"its module could not be loaded: {type(error).__name__}")

    def _give_up(self, agent: AgentConfig, reason: str) -> None:
        log.error("agent failed to start", extra={"agent": agent.name, "reason": reason})
        self.failed[agent.name] = reason
        try:
            self.unstarted.append(_KINDS[agent.kind].define(self.folder, agent))
        except ValidationError:
            self.unstarted.append(unusable(self.folder.name, agent.name, reason))

    async def make_llm(self, agent: AgentConfig) -> HostedAgent:
        return HostedAgent(
            define_with_model(self.folder, agent), self.shared.watching.metered(self._llm_runtime(agent))
        )

    async def make_function(self, agent: AgentConfig) -> HostedAgent:
        from pallas_hosting.functions.agent import load_function_agent
        from pallas_hosting.functions.runtime import FunctionRuntime

        functions = await load_function_agent(self.folder.name, agent.name, agent.module)
        agents = {name: self._llm_runtime(self.folder.agents[name]) for name in agent.depends_on}
        reach = Reach(self._servers(agent), agents, agent.may_repeat)
        runtime: AgentRuntime = FunctionRuntime(agent.name, functions, reach.open, safe=agent.retry == "safe")
        return HostedAgent(_function_definition(self.folder, agent, functions), self.shared.watching.metered(runtime))

    def _llm_runtime(self, agent: AgentConfig) -> "LlmRuntime":
        from agent_worker.llm.runtime import LlmRuntime

        if agent.name in self._llm:
            return self._llm[agent.name]
        if agent.kind != "llm":
            raise Rejected(f"{agent.name!r} is not an LLM agent, so no other agent can depend on it")
        if self.shared.models is None or agent.model is None:
            raise Rejected(f"agent {agent.name!r} has no model")
        runtime = self._llm[agent.name] = LlmRuntime(
            name=agent.name,
            description=agent.description or agent.title,
            instruction=agent.instruction,
            model=self.shared.models.make(agent, self.folder.providers[agent.model.provider]),
            vision=bool(agent.capabilities and agent.capabilities.vision),
            max_iterations=agent.max_iterations,
            servers=self._servers(agent),
            instead=partial(self.shared.models.instead, agent, providers=self.folder.providers),
            agents=tuple(self._llm_runtime(self.folder.agents[name]) for name in agent.depends_on),
            may_repeat=agent.may_repeat,
            tell_model=agent.on_unknown_tool_outcome == "tell_model",
        )
        return runtime

    def _used(self, agent: AgentConfig) -> dict[str, DownstreamServer]:
        """The servers of an agent and of its sub-agents, by their keys."""
        found = {server.config.key(): server for server in self._servers(agent).values()}
        for name in agent.depends_on:
            found |= self._used(self.folder.agents[name])
        return found

    def _servers(self, agent: AgentConfig) -> dict[str, DownstreamServer]:
        return {name: self.shared.pool.server(name, self.folder.servers[name]) for name in agent.servers}


def _function_definition(folder: TeamFolder, agent: AgentConfig, functions: "FunctionAgent") -> AgentDefinition:
    return define(folder, agent).model_copy(
        update={
            "tools": tuple(tool.definition for tool in functions.tools.values()),
            "prompts": tuple(prompt.definition for prompt in functions.prompts.values()),
            "resources": tuple(resource.definition for resource in functions.resources.values()),
            "completes": bool(functions.completers),
        }
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """How agents of one kind are made.

    `prepare` runs once for a team that has such agents. `define` returns what is known of an agent that did not start.
    """

    prepare: Callable[[TeamFolder, SharedRuntime], Awaitable[None]]
    define: Callable[[TeamFolder, AgentConfig], AgentDefinition]
    make: Callable[[_Host, AgentConfig], Awaitable[HostedAgent]]


_KINDS: Mapping[str, _Kind] = {
    "llm": _Kind(_prepare_llm, define_with_model, _Host.make_llm),
    "function": _Kind(_prepare_function, define, _Host.make_function),
}
"""Every kind of agent that a team folder can have."""


if TYPE_CHECKING:
    from agent_worker.llm.runtime import LlmRuntime
    from pallas_hosting.definition import TurnScope

_PARTS = {"content", "structured_content", "is_error"}


@dataclass(frozen=True, slots=True)
class Reach:
    """The servers and agents that a function agent names. `may_repeat` is as in `LlmRuntime`."""

    servers: Mapping[str, DownstreamServer]
    agents: "Mapping[str, LlmRuntime]"
    may_repeat: MayRepeat

    def open(self, steps: Steps, emit: Emitter) -> "TurnOutside":
        """What one attempt can call."""
        return TurnOutside(self, steps, emit)


class TurnOutside:
    """The `Outside` of one attempt."""

    def __init__(self, reach: Reach, steps: Steps, emit: Emitter) -> None:
        self._reach = reach
        self._steps = steps
        self._emit = emit
        self._opened: TurnScope | None = None

    async def may_repeat(self, server: str, tool: str) -> bool:
        """Whether the team or the tool itself says so."""
        may_repeat = self._reach.may_repeat
        if (said := may_repeat(server, tool)) is not None:
            return said
        with suppress(Unavailable, KeyError):
            tools = await self._reach.servers[server].tools()
            return any(is_safe(server, it, may_repeat) for it in tools if it.name == tool)
        return False

    async def call_tool(self, started: ToolStarted, arguments: JsonObject) -> JsonObject:
        """Call a tool."""
        if (server := self._reach.servers.get(started.server)) is None:
            raise StepFailed("unknown_server", f"{started.server!r} is not among the servers of this agent")
        try:
            result = await call_tool(server, started, arguments, self._emit)
        except CallFailed as error:
            raise StepFailed(error.code, error.message) from error
        return result.model_dump(mode="json", include=_PARTS, by_alias=True, exclude_none=True)

    async def call_agent(self, started: ToolStarted, message: str) -> str:
        """Run an agent. All of a turn share one scope, which counts their steps."""
        if (agent := self._reach.agents.get(started.server)) is None:
            raise StepFailed("unknown_agent", f"{started.server!r} is not among the agents that this one depends on")
        from agent_worker.llm.failures import RunFailed

        try:
            return await agent.ask(message, self._scope(), f"{started.call}.")
        except RunFailed as error:
            raise StepFailed(error.failed.code, error.failed.message) from error

    def _scope(self) -> "TurnScope":
        from pallas_hosting.definition import TurnScope

        if self._opened is None:
            self._opened = TurnScope(self._emit, self._steps)
        return self._opened
