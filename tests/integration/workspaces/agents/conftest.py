"""A world with agents: those of the registry are `RawAgents`, one for each test."""

import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import pytest
from tests.integration.workspaces.control.world import World, a_world
from tests.postgres import PostgresServer
from tests.workspaces_world.foreign.raw_agents import RawAgents
from tests.workspaces_world.registry import entry

from workspaces.answers import AgentStatus, AgentStatuses

API = "/api/v1"


@dataclass
class Town:
    """A world, and the agents in it."""

    world: World
    agents: RawAgents
    names: list[str] = field(default_factory=list[str])

    def offer(self, name: str | None = None, **fields: object) -> str:
        """Let the registry offer one more agent. Returns its name, and server id."""
        name = name or f"a{uuid.uuid4().hex[:8]}"
        remotes = [{"type": "streamable-http", "url": self.agents.url(name)}]
        self.world.registry.servers.append(entry(f"test/{name}", remotes=remotes, title=name.title(), **fields))
        return name

    async def statuses(self) -> list[AgentStatus]:
        """What the route of the health of all agents answers."""
        answer = await self.world.http.get(f"{API}/agents/status")
        assert answer.status_code == 200, answer.text
        return list(AgentStatuses.model_validate(answer.json()).agents)


@pytest.fixture(scope="module")
async def module_town(postgres: PostgresServer, model: str) -> AsyncGenerator[Town]:
    """A running world whose agents are checked once an hour, as the tests before have left it."""
    async with RawAgents() as agents, a_world(await postgres.new_database(like=model), health_interval="3600") as world:
        yield Town(world, agents)


@pytest.fixture
async def town(module_town: Town) -> Town:
    """The module's world, whose registry offers nothing."""
    module_town.world.registry.servers.clear()
    return module_town
