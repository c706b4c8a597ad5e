"""Makes the agents of one turn: the called one and those that it depends on, one after another.

One at a time, so that what was made can be disposed when another one cannot be made. An agent that uses servers gets
the shared connections.
"""

import asyncio
import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fast_agent.agents.mcp_agent import McpAgent
from fast_agent.core.direct_factory import active_agents_in_dependency_group
from fast_agent.core.exceptions import FastAgentError
from fast_agent.core.fastagent import AgentInstance
from fast_agent.core.validation import get_dependencies_groups
from fast_agent.workflow_telemetry import ToolHandlerWorkflowTelemetry

from fast_agent_worker.project.load import Prepared, app_of, closure_in
from fast_agent_worker.project.pool import Connections
from fast_agent_worker.project.reasons import reason_of
from fast_agent_worker.turns.observed import observed_factory
from fast_agent_worker.turns.relay import WorkflowRelay
from fast_agent_worker.turns.scope import TurnScope
from pallas_contracts.errors import PallasError, Rejected

log = logging.getLogger(__name__)

_DISPOSE_SECONDS = 5.0
_REMOTE = "a2a"
_disposing: set[asyncio.Task[None]] = set()


def closure_of(prepared: Prepared, name: str) -> dict[str, Any]:
    """The data of an agent and of all that it depends on, by name."""
    return closure_in(prepared.fast.agents, name)


class Closure:
    """The agents of one turn. Whoever makes it disposes it, also when making it fails."""

    def __init__(self) -> None:
        self.agents: dict[str, Any] = {}

    async def make(
        self, prepared: Prepared, name: str, shared: Mapping[str, Connections], scope: TurnScope, model: str | None
    ) -> Any:
        """Make all agents and return the one that is called `name`; `model` replaces its own.

        Raises:
            Rejected: the class of one cannot be made.
        """
        most = scope.config.max_iterations
        data = {each: _for_turn(it, each in shared, most) for each, it in closure_of(prepared, name).items()}
        if model is not None:
            data[name]["config"].model = model
        fast, runtime = prepared.fast, prepared.runtime
        factory = observed_factory(runtime.model_factory_func, scope)
        for group in get_dependencies_groups(data):
            for each in group:
                await self.add(prepared, data, factory, each)
                if each in shared:
                    await _connect(self.agents[each], shared[each])
                if each in prepared.tools:
                    _name_tools(self.agents[each], prepared.tools[each])
        fast._apply_agent_card_histories(self.agents)
        await fast._finalize_initial_agent_instance(runtime, AgentInstance(app_of(prepared, self.agents), self.agents))
        for agent in self.agents.values():
            if hasattr(agent, "workflow_telemetry"):
                agent.workflow_telemetry = ToolHandlerWorkflowTelemetry(WorkflowRelay(scope))
        return self.agents[name]

    async def add(self, prepared: Prepared, data: dict[str, Any], factory: Any, name: str) -> None:
        """Make one agent, whose dependencies are made.

        Raises:
            Rejected: a class of the team's own raises.
        """
        fast, environment = prepared.fast, prepared.runtime.shell_environment
        try:
            await active_agents_in_dependency_group(
                fast.app, data, factory, fast._registered_tools, [name], self.agents, shell_environment=environment
            )
        except (FastAgentError, PallasError):
            raise
        except Exception as error:
            log.exception("an agent cannot be made", extra={"agent": name})
            why = reason_of(error, Path.cwd())
            raise Rejected(f"agent {name!r} cannot be made: {why}", code="agent_failed") from error

    def dispose(self, work: asyncio.Task[Any] | None = None) -> None:
        """Dispose the agents in a task of its own, after `work` has ended: a turn that was cancelled does not wait."""
        task = asyncio.create_task(_dispose(list(self.agents.values()), work), name="dispose agents")
        _disposing.add(task)
        task.add_done_callback(_disposing.discard)


async def check_making(prepared: Prepared, name: str) -> None:
    """Make an agent once, without servers: functions, hooks and classes of the team's own are read then.

    Raises:
        Rejected: it cannot be made.
    """
    data = {each: _for_turn(it, True, 1) for each, it in closure_of(prepared, name).items()}
    if any(it["type"] == _REMOTE for it in data.values()):
        return  # it would be called
    closure = Closure()
    try:
        for group in get_dependencies_groups(data):
            for each in group:
                await closure.add(prepared, data, prepared.runtime.model_factory_func, each)
    except FastAgentError as error:
        raise Rejected(f"fast-agent refuses it: {reason_of(error, Path.cwd())}") from error
    finally:
        closure.dispose()


async def all_disposed() -> None:
    """Wait until the agents of all turns are disposed."""
    if _disposing:
        await asyncio.wait(set(_disposing), timeout=2 * _DISPOSE_SECONDS)


async def _dispose(agents: list[Any], work: asyncio.Task[Any] | None) -> None:
    if work is not None and not work.done():
        work.cancel()
        _, left = await asyncio.wait({work}, timeout=_DISPOSE_SECONDS)
        if left:
            log.warning("an agent does not end; it is disposed all the same")
    for agent in reversed(agents):
        try:
            async with asyncio.timeout(_DISPOSE_SECONDS):
                await agent.shutdown()
        except Exception:  # what one agent leaves behind must not keep the others
            log.warning("an agent was not disposed", extra={"agent": agent.name}, exc_info=True)


def _for_turn(data: Any, pooled: bool, max_iterations: int) -> dict[str, Any]:
    """A copy of an agent's data: without servers if it gets shared connections, and with a bound on its iterations."""
    config = copy.copy(data["config"])
    if pooled:
        config.servers = []
    own = config.default_request_params
    # fast-agent counts what follows the first call of a model.
    config.default_request_params = own.model_copy(
        update={"max_iterations": min(own.max_iterations, max_iterations - 1)}
    )
    return {**data, "config": config}


async def _connect(agent: McpAgent, connections: Connections) -> None:
    """Give an agent, and the instances that are made of it, the shared connections."""
    aggregator = await connections.aggregator()
    own = agent._aggregator
    agent._aggregator = aggregator
    await own.close()

    async def configure(clone: Any) -> None:
        clone._codex_web_search.detached = True
        empty = clone._aggregator
        clone._aggregator = aggregator
        await empty.close()

    agent._configure_cloned_instance = configure


def _name_tools(agent: Any, names: Mapping[str, str]) -> None:
    """Give the sub-agents of an agent, and of the instances that are made of it, these names as tools."""

    def name(instance: Any) -> None:
        children = instance._child_agents.items()
        instance._child_agents = {names.get(child.name, tool): child for tool, child in children}

    before = agent._configure_cloned_instance

    async def configure(clone: Any) -> None:
        await before(clone)
        name(clone)

    agent._configure_cloned_instance = configure
    name(agent)
