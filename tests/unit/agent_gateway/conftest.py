"""Endpoints of agents without a platform behind them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from types import SimpleNamespace
from typing import cast

import pytest
from mcp.server.request_state import RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings

from agent_gateway.mcp.endpoints import Endpoints
from agent_gateway.mcp.observers import Platform

NO_PLATFORM = cast("Platform", SimpleNamespace(sessions=None))  # no call is made here


@pytest.fixture
async def endpoints() -> AsyncGenerator[Endpoints]:
    """Endpoints whose tasks end with the test."""
    tasks: list[asyncio.Task[None]] = []

    def spawn(work: Awaitable[None]) -> object:
        async def run() -> None:
            await work

        tasks.append(asyncio.create_task(run()))
        return tasks[-1]

    yield Endpoints(NO_PLATFORM, TransportSecuritySettings(), RequestStateSecurity.ephemeral(), 1024, spawn)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
