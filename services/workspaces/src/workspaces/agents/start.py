"""Starts what speaks with agents."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_mcp_calls.http import KEEPALIVE, MOST_IDLE
from pallas_mcp_calls.late import LateCalls
from pallas_mcp_calls.model import HealthReport, Target
from pallas_postgres.engine import reading
from pallas_runtime.process import Process
from workspaces.agents.health import HealthBook
from workspaces.agents.icons import Icons
from workspaces.agents.poller import Poller
from workspaces.agents.targets import Targets
from workspaces.live.hub import Hub
from workspaces.metrics import Metrics
from workspaces.mnemosyne.vault import Vault
from workspaces.registries.policy import Policy
from workspaces.settings import WorkspacesSettings
from workspaces.stored_settings import default_settings, stored_settings


@dataclass(frozen=True, slots=True)
class Agents:
    """Where agents are, how they are, how they are called, and what they look like."""

    targets: Targets
    health: HealthBook
    calls: LateCalls
    icons: Icons


@asynccontextmanager
async def open_agents(
    settings: WorkspacesSettings, process: Process, vault: Vault, engine: AsyncEngine, hub: Hub, metrics: Metrics
) -> AsyncGenerator[Agents]:
    """Check the health of all agents until the block ends."""
    policy, defaults = Policy(settings.registry_networks), default_settings(settings)
    transport = policy.transport(most_idle=MOST_IDLE, socket_options=KEEPALIVE)

    async def interval() -> float:
        async with reading(engine) as session:
            return (await stored_settings(session, defaults)).health_interval

    async def ask_health(target: Target) -> HealthReport:
        return await (await calls()).health(target)

    async with AsyncExitStack() as stack:
        calls = await stack.enter_async_context(LateCalls(transport))
        loading = asyncio.create_task(calls(), name="load the SDK")  # before somebody waits for the first call
        stack.callback(loading.cancel)
        icons = await stack.enter_async_context(Icons(engine, policy))
        targets = Targets(engine, vault, settings)
        book = HealthBook(ask_health, hub, metrics.agent_health, defaults.health_interval)
        poller = Poller(book, targets, hub, interval)
        await stack.enter_async_context(process.running(poller.run(), "health of agents"))
        yield Agents(targets, book, calls, icons)
