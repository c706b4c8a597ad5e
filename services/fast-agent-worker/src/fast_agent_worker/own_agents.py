"""An agent of the folder that another one names as a server, by its address here, is called in the same turn.

Over the gateway, the caller would hold a slot while the agent that it calls waits for one. Its model sees the tool
under the same name; the tool takes a message and no history. The turn has one caller and one budget, which is the
team's. An agent with `allow` is called over its address: the gateway decides who may call it, by the server's headers.
"""

import logging
from collections.abc import Sequence

from fast_agent_worker.project.load import Prepared, Project
from fast_agent_worker.turns.closure import closure_of
from pallas_contracts.errors import Rejected
from pallas_teams import AgentConfig, TeamFolder
from pallas_teams.fast_agent.kinds import agent_at

log = logging.getLogger(__name__)

_CAN_HAVE_AGENTS = "basic"
"""The type of agents that can have others as tools."""


async def adopt_agents(
    folder: TeamFolder,
    project: Project,
    prepared: Prepared,
    name: str,
    gateways: Sequence[str],
    callers: frozenset[tuple[int, str]] = frozenset(),
) -> None:
    """Make sub-agents of the servers of an agent, and of those that it depends on, that are agents of the folder.

    `gateways` are the base URLs of the gateways. `callers` are the agents whose servers led here: one of them does not
    become a sub-agent, which would be a circle.
    """
    known, callers = prepared.servers, callers | {(id(prepared), name)}
    for each, data in closure_of(prepared, name).items():
        config = data["config"]
        for server in tuple(config.servers):
            url = known[server].url if server in known else None
            agent = agent_at(folder, url, gateways) if url else None
            if agent is None or data["type"] != _CAN_HAVE_AGENTS:
                continue
            child = await _bring(folder, project, prepared, agent, gateways, callers)
            if child is None or each in closure_of(prepared, child):
                log.info("an agent of the folder is called over its address", extra={"agent": each, "server": server})
                continue
            config.servers = [kept for kept in config.servers if kept != server]
            data["child_agents"] = [*(data.get("child_agents") or ()), child]
            prepared.tools.setdefault(each, {})[child] = f"{server}__{agent.name}"


async def _bring(
    folder: TeamFolder,
    project: Project,
    prepared: Prepared,
    agent: AgentConfig,
    gateways: Sequence[str],
    callers: frozenset[tuple[int, str]],
) -> str | None:
    """Have an agent and its sub-agents beside those of another module. Returns its name; None if it cannot be there."""
    if agent.allow is not None:
        return None
    try:
        other, name = await project.prepared(agent)
    except Rejected:
        return None
    if (id(other), name) in callers:
        return None
    # First its own servers: what is found below has to have the sub-agents that replace them.
    await adopt_agents(folder, project, other, name, gateways, callers)
    found, mine = closure_of(other, name), prepared.fast.agents
    if found[name].get("message_files"):
        return None  # as a tool, an agent would not have the messages of its card
    if other is not prepared:
        if other.fast._registered_tools or any(mine.get(each, it) is not it for each, it in found.items()):
            return None
        mine.update(found)
        prepared.tools.update({each: names for each, names in other.tools.items() if each in found})
    config = found[name]["config"]
    config.model = config.model or agent.wanted_model
    return name
