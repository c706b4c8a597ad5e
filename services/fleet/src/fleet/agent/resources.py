"""Resources of the agent, which are not in the contract: what its tools show, for reading.

Each has one URI, under which its changes are announced. Another spelling is refused: who subscribed to it would never
hear of a change.
"""

import json
from collections.abc import Awaitable, Callable

from fleet.agent.tools import Handlers
from fleet.handlers.list_agents import list_agents
from fleet.seeing.announcing import AGENT_URI, AGENTS_URI, TASK_URI
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.turns import Principal
from pallas_executor.functions.agent import FunctionAgent
from pallas_executor.functions.context import ReadContext

type _Read = Callable[[Principal, dict[str, str]], Awaitable[JsonObject]]


def add_resources(agent: FunctionAgent, does: Handlers) -> None:
    """Add the resources."""
    _add(
        agent,
        AGENTS_URI,
        "agents",
        "All agents, as list_agents shows them",
        lambda caller, _: list_agents(does.fleet, caller),
    )
    _add(
        agent,
        AGENT_URI,
        "agent",
        "An agent, as show_agent shows it",
        lambda caller, given: _agent(does, caller, given["name"]),
    )
    _add(
        agent,
        TASK_URI,
        "task",
        "A task with the messages of its agent's terminal, while they are there",
        lambda caller, given: _task(does, caller, given["id"]),
    )


async def _agent(does: Handlers, caller: Principal, name: str) -> JsonObject:
    shown = await does.show.show(name, caller)
    _check(AGENT_URI.format(name=name), AGENT_URI.format(name=shown["agent"]["name"]))
    return shown


async def _task(does: Handlers, caller: Principal, wanted: str) -> JsonObject:
    shown = await does.transcript.read(wanted, caller)
    _check(TASK_URI.format(id=wanted), TASK_URI.format(id=shown["task"]["id"]))
    return shown


def _check(asked: str, uri: str) -> None:
    if asked != uri:
        raise NotFound(f"There is no resource {asked}; it is {uri}.", uri=uri)


def _add(agent: FunctionAgent, uri: str, name: str, description: str, read: _Read) -> None:
    async def answer(ctx: ReadContext, given: dict[str, str]) -> str:
        return json.dumps(await read(ctx.principal, given), ensure_ascii=False)

    agent.resource(uri, name, description, mime_type="application/json")(answer)
