"""A conversation with a scripted agent, over the module's service."""

from collections.abc import AsyncGenerator

import pytest
from tests.integration.workspaces.chat.talk import Talk, attach, begin
from tests.integration.workspaces.lab import Lab
from tests.workspaces_world.agent import Agent, an_agent


@pytest.fixture
async def harper() -> AsyncGenerator[Agent]:
    """An agent that keeps idempotency keys and streams its text."""
    async with an_agent("harper") as agent:
        yield agent


@pytest.fixture
async def talk(lab: Lab, harper: Agent) -> Talk:
    """A conversation in a workspace to which the agent's team is attached."""
    await attach(lab.service.parts.engine, harper)
    return await begin(lab.browser)
