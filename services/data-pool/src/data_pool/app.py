"""Builds the pool: it registers data agents and executes their turns."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from data_pool.settings import PoolSettings
from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import connect_when_possible
from pallas_bus.transport.streams import declare
from pallas_contracts.catalog import DATA_AGENTS, DATA_TEAM, HEARTBEATS, POOL
from pallas_executor.executor import Executor, execute_turns
from pallas_executor.metrics import make_metrics
from pallas_runtime.process import Process


@asynccontextmanager
async def build(settings: PoolSettings, process: Process) -> AsyncGenerator[Executor]:
    """Connect and execute the turns of data agents."""
    access = Access.of(settings)
    async with (
        connect_when_possible(access, POOL, instance=process.instance) as bus,
        process.uses(bus),
    ):
        await declare(bus, DATA_AGENTS, HEARTBEATS, replicas=settings.stream_replicas)
        metrics = make_metrics(process.probes.metrics)
        async with execute_turns(
            bus, access, process, metrics, slots=settings.slots, content_seconds=settings.content_seconds
        ) as executor:
            await executor.watch(DATA_TEAM)
            yield executor
