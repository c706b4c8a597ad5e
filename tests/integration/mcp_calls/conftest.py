"""Agents that are not ours, and what calls them."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
from tests.workspaces_world.foreign.raw_agents import RawAgents

from pallas_mcp_calls.calls import AgentCalls


@pytest.fixture(scope="module")
async def agents() -> AsyncGenerator[RawAgents]:
    """Agents that misbehave if they are told to. Each test uses others."""
    async with RawAgents() as agents:
        yield agents


@pytest.fixture(scope="module")
async def calls() -> AsyncGenerator[AgentCalls]:
    async with AgentCalls() as calls:
        yield calls


@pytest.fixture(scope="module")
async def stack() -> AsyncGenerator[AsyncExitStack]:
    """What runs until the end of the module."""
    async with AsyncExitStack() as stack:
        yield stack
